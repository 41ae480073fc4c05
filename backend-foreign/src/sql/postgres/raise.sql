-- Lifts the token of $1 to $3 if $2 holds it.
UPDATE {companion} AS c SET token = greatest(c.token, $3)
WHERE c.name = $1 AND c.owner = $2
    AND EXISTS (SELECT 1 FROM {lock} AS l WHERE l.name::text = $1 AND l.locked_by::text = $2 AND l.lock_until > {utc})
RETURNING 1::bigint
