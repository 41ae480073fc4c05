-- Gives $1 back if it is $2's, and takes the next request of the same process along: of $3, with the
-- label $4, the lease $5, floor + 1 $6, and the place $7. It is granted if nobody waits, and goes to
-- the end of the queue otherwise.
UPDATE {locks} AS l SET
    owner = CASE WHEN l.waiters IS NULL THEN $3 END,
    label = $4,
    token = CASE WHEN l.waiters IS NULL THEN greatest({micros}, l.token + 1, $6) ELSE l.token END,
    version = l.version + 1,
    expires = {now} + $5,
    kept = false,
    waiters = CASE WHEN l.waiters IS NOT NULL THEN array_append(l.waiters, $7) END,
    heard = CASE WHEN l.waiters IS NOT NULL THEN array_append(l.heard, {now}) END,
    turn = NULL
WHERE name = $1 AND owner = $2 AND expires > {now}
    AND (l.buried IS NULL OR $3 <> ALL (l.buried))
    AND EXISTS (SELECT 1 FROM {marker} AS m WHERE {granting})
RETURNING {columns}, CASE WHEN waiters IS NOT NULL THEN {tell_first} END
