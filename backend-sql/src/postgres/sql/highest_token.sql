-- The highest token of all rows, and of what was forgotten.
SELECT greatest(
    (SELECT coalesce(pg_catalog.max(watermark), 0) FROM {marker}),
    (SELECT coalesce(pg_catalog.max(token), 0) FROM {locks})
)
