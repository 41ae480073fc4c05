-- The highest token of all rows and of all deleted rows.
SELECT greatest(
    (SELECT coalesce(pg_catalog.max(watermark), 0) FROM {marker}),
    (SELECT coalesce(pg_catalog.max(token), 0) FROM {locks})
)
