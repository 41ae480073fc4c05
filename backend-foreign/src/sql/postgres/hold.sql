-- What a holder does with its lock.

-- name: renew(names, owners, leases)
-- Renews a batch. A row that another transaction has locked is skipped, since an UPDATE would wait
-- for it. Renewals may be reordered, so it never shortens a lease. Returns the owners that were
-- renewed.
WITH ours AS (
    SELECT l.name::text AS name, g.lease
    FROM unnest($names::text[], $owners::text[], $leases::interval[]) AS g (name, owner, lease)
    JOIN {lock} AS l ON l.name::text = g.name
    -- guard: renew-owner
    AND l.locked_by::text = g.owner
    -- guard: renew-over
    WHERE l.lock_until > {utc}
    -- guard: renew-skips
    FOR UPDATE OF l SKIP LOCKED
)
UPDATE {lock} AS l SET
    -- guard: renew-shorter
    lock_until = greatest(l.lock_until, {utc} + ours.lease)
FROM ours WHERE l.name::text = ours.name
RETURNING l.locked_by::text

-- name: renew_one(name, owner, lease)
-- Renews $name for $lease if $owner holds it, and waits for its row. Renewals may be reordered, so
-- it never shortens a lease.
UPDATE {lock} SET
    -- guard: renew-one-shorter
    lock_until = greatest(lock_until, {utc} + $lease)
WHERE name::text = $name
    -- guard: renew-one-owner
    AND locked_by::text = $owner
    -- guard: renew-one-over
    AND lock_until > {utc}
RETURNING 1::bigint

-- name: release(name, owner)
-- Releases $name if $owner holds it. The row stays, as ShedLock expects.
UPDATE {lock} SET lock_until = {utc}
WHERE name::text = $name
    -- guard: release-owner
    AND locked_by::text = $owner
    -- guard: release-over
    AND lock_until > {utc}
RETURNING 1::bigint

-- name: minimum_hold(name, owner, keep)
-- Releases $name if $owner holds it, and keeps it for $keep more, as ShedLock does for
-- lockAtLeastFor.
UPDATE {lock} SET lock_until = {utc} + $keep,
    -- guard: hold-mark
    locked_by = $owner || ' released'
WHERE name::text = $name
    -- guard: hold-owner
    AND locked_by::text = $owner
    -- guard: hold-over
    AND lock_until > {utc}
RETURNING 1::bigint

-- name: raise(name, owner, token)
-- Raises the token of $name to $token if $owner holds it.
UPDATE {companion} AS c SET
    -- guard: raise-only
    token = greatest(c.token, $token)
WHERE c.name = $name AND EXISTS (
    SELECT 1 FROM {lock} AS l WHERE l.name::text = $name
        -- guard: raise-owner
        AND l.locked_by::text = $owner
        -- guard: raise-over
        AND l.lock_until > {utc}
)
RETURNING 1::bigint
