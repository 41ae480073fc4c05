-- The transactions that write to the locks now, or wait for the table. One that waits may already have its snapshot, if
-- one snapshot serves all statements of a transaction.
SELECT DISTINCT l.virtualtransaction FROM pg_catalog.pg_locks AS l
JOIN pg_catalog.pg_database AS d ON d.oid = l.database
WHERE d.datname = pg_catalog.current_database() AND l.relation = '{locks}'::regclass::oid
    AND l.mode = 'RowExclusiveLock'
