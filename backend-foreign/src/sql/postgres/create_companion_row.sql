-- An attempt makes the row.
SELECT 1::bigint
