-- What a holder does with its lock.

-- name: renew(name, owner, lease)
-- Renews $name for $lease if $owner holds it. A row that another transaction has locked is skipped,
-- since an UPDATE would wait for it. Nothing is inserted, because the row exists. Renewals may be
-- reordered, so it never shortens a lease.
INSERT INTO {lock} (name, lock_until, locked_at, locked_by)
SELECT l.name, l.lock_until, l.locked_at, l.locked_by FROM {lock} AS l
WHERE l.name = $name
    -- guard: renew-owner | S4 | only_the_owner_renews | AND ? <> ''
    AND l.locked_by = $owner
    -- guard: renew-over | S5 | a_renewal_does_not_bring_an_expired_grant_back
    AND l.lock_until > {utc}
-- guard: renew-skips | L5 | a_batch_beside_another_transaction | FOR UPDATE
FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE
    -- guard: renew-shorter | S3 | a_shorter_renewal |
    --   lock_until = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
    lock_until = GREATEST({lock}.lock_until, {utc} + INTERVAL $lease MICROSECOND)

-- name: renew_one(name, owner, lease)
-- Renews $name for $lease if $owner holds it, and waits for its row. Renewals may be reordered, so
-- it never shortens a lease.
UPDATE {lock} SET
    -- guard: renew-one-shorter | S3 | a_repeat_by_the_owner_is_the_same_grant |
    --   lock_until = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
    lock_until = GREATEST(lock_until, {utc} + INTERVAL $lease MICROSECOND)
WHERE name = $name
    -- guard: renew-one-owner | S4 | a_renewal_of_what_was_taken | AND ? <> ''
    AND locked_by = $owner
    -- guard: renew-one-over | S5 | a_renewal_of_what_was_released
    AND lock_until > {utc}

-- name: release(name, owner)
-- Releases $name if $owner holds it. The row stays, as ShedLock expects. `lock_until` becomes an
-- hour ago: a renewal that began before this statement and waits for the row has the clock of its
-- own start, and must still find the lock free.
UPDATE {lock} SET
    -- guard: release-past | S5 | a_renewal_of_what_was_released | lock_until = UTC_TIMESTAMP(6)
    lock_until = {utc} - INTERVAL 1 HOUR
WHERE name = $name
    -- guard: release-owner | S4 | only_the_owner_releases | AND ? <> ''
    AND locked_by = $owner
    -- guard: release-over | S4 | a_renewal_does_not_bring_an_expired_grant_back
    AND lock_until > {utc}

-- name: minimum_hold(name, owner, keep)
-- Releases $name if $owner holds it, and keeps it for $keep more, as ShedLock does for
-- lockAtLeastFor.
UPDATE {lock} SET lock_until = {utc} + INTERVAL $keep MICROSECOND,
    -- guard: kept-of-an-abandoned | S6 | a_clean_up_of_what_is_kept | locked_by = ?
    -- guard: kept-is-not-renewed | S5 | a_renewal_of_what_is_kept | locked_by = ?
    locked_by = CONCAT($owner, ' released')
WHERE name = $name
    -- guard: hold-owner | S4 | a_minimum_hold_by_another | AND ? <> ''
    AND locked_by = $owner
    -- guard: hold-over | S5 | a_late_minimum_hold
    AND lock_until > {utc}

-- name: raise(name, owner, token)
-- Raises the token of $name to $token if $owner holds it.
UPDATE {lock} AS l, {companion} AS c SET
    -- guard: raise-only | S2 | a_raise_to_less | c.token = ?
    c.token = GREATEST(c.token, $token)
WHERE l.name = $name AND c.name = $name
    -- guard: raise-owner | S4 | a_raise_by_another | AND ? <> ''
    AND l.locked_by = $owner
    -- guard: raise-over | S4 | a_late_raise
    AND l.lock_until > {utc}
