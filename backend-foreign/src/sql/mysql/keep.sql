-- Gives ?1 back if it is ?2's, and keeps it for ?3 more, as ShedLock does for lockAtLeastFor.
UPDATE {lock} SET lock_until = {utc} + INTERVAL ?3 MICROSECOND,
    -- guard: kept
    locked_by = CONCAT(?2, ' released')
WHERE name = ?1
    -- guard: keep-owner
    AND locked_by = ?2
    -- guard: keep-over
    AND lock_until > {utc}
