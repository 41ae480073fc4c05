-- Releases ?1 if ?2 holds it. The row stays, as ShedLock expects. `lock_until` becomes an hour ago: a renewal
-- that began before this statement and waits for the row has the clock of its own start, and must still find the lock free.
UPDATE {lock} SET
    -- guard: release-past
    lock_until = {utc} - INTERVAL 1 HOUR
WHERE name = ?1
    -- guard: release-owner
    AND locked_by = ?2
    -- guard: release-over
    AND lock_until > {utc}
