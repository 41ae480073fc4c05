-- Gives ?1 back if it is ?2's. The row stays, as ShedLock expects. `lock_until` becomes an hour ago: a renewal
-- whose statement began before this one, and waits for the row, has the clock of its begin, and must find it over.
UPDATE {lock} SET
    -- guard: release-past
    lock_until = {utc} - INTERVAL 1 HOUR
WHERE name = ?1
    -- guard: release-owner
    AND locked_by = ?2
    -- guard: release-over
    AND lock_until > {utc}
