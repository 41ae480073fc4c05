-- Puts the place $2 at the end of the queue of the name $1, if another holds that and the place is not
-- there already. What else there is to do for a queue, ask.sql does.
UPDATE {locks} AS l SET
    waiters = array_append(l.waiters, $2), heard = array_append(l.heard, {now})
WHERE name = $1 AND l.owner <> left($2, 32) AND l.expires > {now}
    AND (l.waiters IS NULL OR $2 <> ALL (l.waiters))
    AND (l.buried IS NULL OR left($2, 32) <> ALL (l.buried))
RETURNING {columns}, cardinality(waiters) AS place
