-- Raises the token of $1 to $3 if $2 holds it.
UPDATE {companion} AS c SET
    -- guard: raise-only
    token = greatest(c.token, $3)
WHERE c.name = $1 AND EXISTS (
    SELECT 1 FROM {lock} AS l WHERE l.name::text = $1
        -- guard: raise-owner
        AND l.locked_by::text = $2
        -- guard: raise-over
        AND l.lock_until > {utc}
)
RETURNING 1::bigint
