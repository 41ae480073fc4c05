-- Frees ?1, whoever holds it; an hour ago, as a release.
UPDATE {lock} SET
    -- guard: force-past
    lock_until = {utc} - INTERVAL 1 HOUR
WHERE name = ?1
    -- guard: force-held
    AND lock_until > {utc}
