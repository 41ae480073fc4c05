-- Releases $1 if it is $2's, and grants it to the first waiter, which is notified and has $3 to confirm the grant
-- (confirm.sql). Before that, the entry $4 of the same process, if any, joins the end of the queue if the head has room
-- for it; it counts as alive for $5.
-- Does nothing if the first entry is not alive, or must ask for the lock itself. The row was granted in this very store,
-- which shows that nothing was lost since: see retake.sql.
-- Answers the token, whether $4 joined the queue, and whether entries should move from the tail of the queue to its head.
UPDATE {locks} AS l SET
    owner = pg_catalog.left(l.waiters[1], 32), label = pg_catalog.substr(l.waiters[1], 66),
    client = pg_catalog.substr(l.waiters[1], 33, 32),
    token = greatest({micros}, l.token + 1), version = l.version + 1,
    expires = {now} + $3::interval, kept = false,
    waiters = CASE
        WHEN $4::text IS NOT NULL AND l.far IS NULL AND pg_catalog.cardinality(l.waiters) <= {near}
            THEN pg_catalog.array_append(l.waiters[2:], $4)
        WHEN pg_catalog.cardinality(l.waiters) > 1 OR l.far IS NOT NULL THEN l.waiters[2:] END,
    alive = CASE
        WHEN $4 IS NOT NULL AND l.far IS NULL AND pg_catalog.cardinality(l.waiters) <= {near}
            THEN pg_catalog.array_append(l.alive[2:], {now} + $5::interval)
        WHEN pg_catalog.cardinality(l.waiters) > 1 OR l.far IS NOT NULL THEN l.alive[2:] END,
    turn = NULL
WHERE name = $1 AND owner = $2 AND expires > {now}
    AND pg_catalog.substr(l.waiters[1], 65, 1) = '+' AND (
        -- guard: pass-alive
        l.alive[1] > {now} OR
        -- guard: pass-heartbeat
        EXISTS (SELECT 1 FROM {queue} AS b WHERE b.name = $1 AND b.owner = pg_catalog.left(l.waiters[1], 32) AND b.alive > {now}) OR
        false
    )
    AND (l.buried IS NULL OR coalesce(pg_catalog.left($4, 32), '') <> ALL (l.buried))
    -- guard: pass-store
    AND l.store = {here}
    AND l.itself = l.tableoid
    AND {persistence}
RETURNING token, coalesce($4 = ANY (waiters), false), {short}, pg_catalog.pg_notify(
    -- guard: pass-tells
    'leasehold_' || client,
    owner || '+'
)
