-- Third step of a sweep: deletes at most $1 rows of entries that have long been dead. Rows that others have locked are left to
-- the next sweep.
DELETE FROM {queue} AS p USING (
    SELECT b.name, b.owner FROM {queue} AS b WHERE b.alive < {now} - interval '1 minute'
    LIMIT $1::bigint FOR UPDATE SKIP LOCKED
) AS dead
WHERE p.name = dead.name AND p.owner = dead.owner
