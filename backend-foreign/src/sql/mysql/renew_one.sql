-- Renews ?1 for ?3 if it is ?2's, and waits for its row. It may be carried out after one that was sent later: it never shortens.
UPDATE {lock} SET
    -- guard: renew-one-shorter
    lock_until = GREATEST(lock_until, {utc} + INTERVAL ?3 MICROSECOND)
WHERE name = ?1
    -- guard: renew-one-owner
    AND locked_by = ?2
    -- guard: renew-one-over
    AND lock_until > {utc}
