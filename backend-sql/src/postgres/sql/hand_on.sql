-- Releases $1 if it is $2's and nobody waits for it, and grants it to the next request of the same process: owner $3,
-- label $4, lease $5, floor + 1 $6. The row was granted in this very store, which shows that nothing was lost since: see
-- retake.sql.
UPDATE {locks} AS l SET
    owner = $3, label = $4, token = greatest({micros}, l.token + 1, $6), version = l.version + 1,
    expires = {now} + $5, kept = false
WHERE name = $1 AND owner = $2 AND expires > {now} AND l.waiters IS NULL
    AND (l.buried IS NULL OR $3 <> ALL (l.buried))
    -- guard: hand-on-store
    AND l.store = {here}
    AND l.itself = l.tableoid
    AND {persistence}
RETURNING token
