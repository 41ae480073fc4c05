-- Gives $1 back if it is $2's, and grants it to the first who waits: it is told so, and has $3 to renew
-- what it was granted. The place $4 of the same process, if any, goes to the end of the queue before
-- that. Nothing is done for a first place that was not heard of for $5, or that wants to be asked. That
-- the row was granted in this very store shows that nothing was lost since: see retake.sql.
UPDATE {locks} AS l SET
    owner = pg_catalog.left(l.waiters[1], 32), label = pg_catalog.substr(l.waiters[1], 66),
    client = pg_catalog.substr(l.waiters[1], 33, 32),
    token = greatest({micros}, l.token + 1), version = l.version + 1,
    expires = {now} + $3::interval, kept = false,
    waiters = CASE WHEN $4::text IS NOT NULL THEN pg_catalog.array_append(l.waiters[2:], $4)
        WHEN pg_catalog.cardinality(l.waiters) > 1 THEN l.waiters[2:] END,
    heard = CASE WHEN $4 IS NOT NULL THEN pg_catalog.array_append(l.heard[2:], {now})
        WHEN pg_catalog.cardinality(l.heard) > 1 THEN l.heard[2:] END,
    turn = NULL
WHERE name = $1 AND owner = $2 AND expires > {now}
    AND pg_catalog.substr(l.waiters[1], 65, 1) = '+' AND l.heard[1] > {now} - $5::interval
    AND (l.buried IS NULL OR coalesce(pg_catalog.left($4, 32), '') <> ALL (l.buried))
    -- guard: pass-store
    AND l.store = {here}
    AND l.itself = l.tableoid
RETURNING token, pg_catalog.pg_notify(
    -- guard: pass-tells
    'leasehold_' || client,
    owner || ' ' || token::text || CASE WHEN waiters IS NULL THEN ' 0' ELSE ' 1' END
)
