-- Frees $1, whoever holds it.
UPDATE {lock} SET lock_until = {utc} WHERE name::text = $1
    -- guard: force-held
    AND lock_until > {utc}
RETURNING 1::bigint
