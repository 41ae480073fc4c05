-- Frees ?1 of any holder. Sets `lock_until` to an hour ago, as release.sql does.
UPDATE {lock} SET
    -- guard: force-past
    lock_until = {utc} - INTERVAL 1 HOUR
WHERE name = ?1
    -- guard: force-held
    AND lock_until > {utc}
