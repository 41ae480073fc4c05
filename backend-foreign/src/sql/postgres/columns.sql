-- The columns of ShedLock's table and their types.
SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod)
FROM pg_catalog.pg_attribute AS a
WHERE a.attrelid = '{lock}'::regclass::oid AND a.attnum > 0 AND NOT a.attisdropped
