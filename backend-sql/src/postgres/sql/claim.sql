-- Takes a free row for the place $6 if that is the first, or if nobody waits. The other arguments are
-- those of insert.sql.
UPDATE {locks} AS l SET
    token = greatest({micros}, l.token + 1, $5),
    owner = $2, label = $3, version = l.version + 1, expires = {now} + $4, kept = false,
    store = {here}, itself = '{locks}'::regclass,
    waiters = nullif(l.waiters[2:], '{}'), heard = nullif(l.heard[2:], '{}'), turn = NULL
WHERE name = $1
    AND (l.owner IS NULL OR l.expires <= {now})
    AND (l.waiters IS NULL OR l.waiters[1] = $6) AND {unburied}
    AND EXISTS (SELECT 1 FROM {marker} AS m WHERE {granting})
RETURNING token
