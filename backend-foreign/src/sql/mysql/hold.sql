-- What a holder does with its lock.

-- name: renew(name, owner, lease)
-- Renews $name for $lease if $owner holds it. A row that another transaction has locked is skipped,
-- since an UPDATE would wait for it. Nothing is inserted, because the row exists. Renewals may be
-- reordered, so it never shortens a lease.
INSERT INTO {lock} (name, lock_until, locked_at, locked_by)
SELECT l.name, l.lock_until, l.locked_at, l.locked_by FROM {lock} AS l
WHERE l.name = $name
    -- guard: renew-owner
    AND l.locked_by = $owner
    -- guard: renew-over
    AND l.lock_until > {utc}
-- guard: renew-skips
FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE
    -- guard: renew-shorter
    lock_until = GREATEST({lock}.lock_until, {utc} + INTERVAL $lease MICROSECOND)

-- name: renew_one(name, owner, lease)
-- Renews $name for $lease if $owner holds it, and waits for its row. Renewals may be reordered, so
-- it never shortens a lease.
UPDATE {lock} SET
    -- guard: renew-one-shorter
    lock_until = GREATEST(lock_until, {utc} + INTERVAL $lease MICROSECOND)
WHERE name = $name
    -- guard: renew-one-owner
    AND locked_by = $owner
    -- guard: renew-one-over
    AND lock_until > {utc}

-- name: release(name, owner)
-- Releases $name if $owner holds it. The row stays, as ShedLock expects. `lock_until` becomes an
-- hour ago: a renewal that began before this statement and waits for the row has the clock of its
-- own start, and must still find the lock free.
UPDATE {lock} SET
    -- guard: release-past
    lock_until = {utc} - INTERVAL 1 HOUR
WHERE name = $name
    -- guard: release-owner
    AND locked_by = $owner
    -- guard: release-over
    AND lock_until > {utc}

-- name: minimum_hold(name, owner, keep)
-- Releases $name if $owner holds it, and keeps it for $keep more, as ShedLock does for
-- lockAtLeastFor.
UPDATE {lock} SET lock_until = {utc} + INTERVAL $keep MICROSECOND,
    -- guard: hold-mark
    locked_by = CONCAT($owner, ' released')
WHERE name = $name
    -- guard: hold-owner
    AND locked_by = $owner
    -- guard: hold-over
    AND lock_until > {utc}

-- name: raise(name, owner, token)
-- Raises the token of $name to $token if $owner holds it.
UPDATE {lock} AS l, {companion} AS c SET
    -- guard: raise-only
    c.token = GREATEST(c.token, $token)
WHERE l.name = $name AND c.name = $name
    -- guard: raise-owner
    AND l.locked_by = $owner
    -- guard: raise-over
    AND l.lock_until > {utc}
