-- Renews ?1 for ?3 if ?2 holds it. A row that another transaction has locked is skipped, since an UPDATE would wait for it.
-- Nothing is inserted, because the row exists. Renewals may be reordered, so it never shortens a lease.
INSERT INTO {lock} (name, lock_until, locked_at, locked_by)
SELECT l.name, l.lock_until, l.locked_at, l.locked_by FROM {lock} AS l
WHERE l.name = ?1
    -- guard: renew-owner
    AND l.locked_by = ?2
    -- guard: renew-over
    AND l.lock_until > {utc}
-- guard: renew-skips
FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE
    -- guard: renew-shorter
    lock_until = GREATEST({lock}.lock_until, {utc} + INTERVAL ?3 MICROSECOND)
