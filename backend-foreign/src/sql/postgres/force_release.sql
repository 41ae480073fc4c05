-- Frees $1 of any holder.
UPDATE {lock} SET lock_until = {utc} WHERE name::text = $1
    -- guard: force-held
    AND lock_until > {utc}
RETURNING 1::bigint
