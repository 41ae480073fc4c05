-- The highest token of all rows and of all deleted rows.
SELECT max(
    (SELECT coalesce(max(watermark), 0) FROM {settings}), (SELECT coalesce(max(token), 0) FROM {locks})
)
