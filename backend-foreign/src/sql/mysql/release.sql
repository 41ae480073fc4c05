-- Gives ?1 back if it is ?2's. The row stays, as ShedLock expects.
UPDATE {lock} SET lock_until = {utc}
WHERE name = ?1
    -- guard: release-owner
    AND locked_by = ?2
    -- guard: release-over
    AND lock_until > {utc}
