-- The highest token of all rows, and of what was forgotten.
SELECT GREATEST(
    (SELECT IFNULL(MAX(watermark), 0) FROM {settings}), (SELECT IFNULL(MAX(token), 0) FROM {locks})
)
