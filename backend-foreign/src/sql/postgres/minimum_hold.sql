-- Releases $1 if $2 holds it, and keeps it for $3 more, as ShedLock does for lockAtLeastFor.
UPDATE {lock} SET lock_until = {utc} + $3,
    -- guard: hold-mark
    locked_by = $2 || ' released'
WHERE name::text = $1
    -- guard: hold-owner
    AND locked_by::text = $2
    -- guard: hold-over
    AND lock_until > {utc}
RETURNING 1::bigint
