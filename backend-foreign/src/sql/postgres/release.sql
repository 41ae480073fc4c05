-- Releases $1 if $2 holds it. The row stays, as ShedLock expects.
UPDATE {lock} SET lock_until = {utc}
WHERE name::text = $1
    -- guard: release-owner
    AND locked_by::text = $2
    -- guard: release-over
    AND lock_until > {utc}
RETURNING 1::bigint
