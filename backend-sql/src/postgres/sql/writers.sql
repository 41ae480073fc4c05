-- The transactions that write to the locks now, or wait for the table: where a transaction's snapshot serves all its
-- statements, one that waits may have it already.
SELECT DISTINCT l.virtualtransaction FROM pg_catalog.pg_locks AS l
JOIN pg_catalog.pg_database AS d ON d.oid = l.database
WHERE d.datname = pg_catalog.current_database() AND l.relation = '{locks}'::regclass::oid
    AND l.mode = 'RowExclusiveLock'
