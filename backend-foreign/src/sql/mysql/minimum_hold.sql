-- Releases ?1 if ?2 holds it, and keeps it for ?3 more, as ShedLock does for lockAtLeastFor.
UPDATE {lock} SET lock_until = {utc} + INTERVAL ?3 MICROSECOND,
    -- guard: hold-mark
    locked_by = CONCAT(?2, ' released')
WHERE name = ?1
    -- guard: hold-owner
    AND locked_by = ?2
    -- guard: hold-over
    AND lock_until > {utc}
