-- Gives $1 back if it is $2's, and keeps it for $3 more, as ShedLock does for lockAtLeastFor.
UPDATE {lock} SET lock_until = {utc} + $3,
    -- guard: kept
    locked_by = $2 || ' released'
WHERE name::text = $1
    -- guard: keep-owner
    AND locked_by::text = $2
    -- guard: keep-over
    AND lock_until > {utc}
RETURNING 1::bigint
