-- What a holder does with its lock.

-- name: renew(names, owners, leases)
-- Renews a batch. A row that another transaction has locked is skipped, since an UPDATE would wait
-- for it. Renewals may be reordered, so it never shortens a lease. Returns the owners that were
-- renewed.
WITH ours AS (
    SELECT l.name::text AS name, g.lease
    FROM unnest($names::text[], $owners::text[], $leases::interval[]) AS g (name, owner, lease)
    JOIN {lock} AS l ON l.name::text = g.name
    -- guard: renew-owner | S4 | a_longer_renewal_by_another
    AND l.locked_by::text = g.owner
    -- guard: renew-over | S5 | a_renewal_does_not_bring_an_expired_grant_back
    WHERE l.lock_until > {utc}
    -- guard: renew-skips | L5 | a_batch_beside_another_transaction | FOR UPDATE OF l
    FOR UPDATE OF l SKIP LOCKED
)
UPDATE {lock} AS l SET
    -- guard: renew-shorter | S3 | a_shorter_renewal |
    --   lock_until = pg_catalog.timezone('UTC', pg_catalog.now()) + ours.lease
    lock_until = greatest(l.lock_until, {utc} + ours.lease)
FROM ours WHERE l.name::text = ours.name
RETURNING l.locked_by::text

-- name: renew_one(name, owner, lease)
-- Renews $name for $lease if $owner holds it, and waits for its row. Renewals may be reordered, so
-- it never shortens a lease.
UPDATE {lock} SET
    -- guard: renew-one-shorter | S3 | a_repeat_by_the_owner_is_the_same_grant |
    --   lock_until = pg_catalog.timezone('UTC', pg_catalog.now()) + $3
    lock_until = greatest(lock_until, {utc} + $lease)
WHERE name::text = $name
    -- guard: renew-one-owner | S4 | a_renewal_of_what_was_taken | AND $2 <> ''
    AND locked_by::text = $owner
    -- guard: renew-one-over | S5 | a_renewal_that_waits_for_the_row
    AND lock_until > {utc}
RETURNING 1::bigint

-- name: release(name, owner)
-- Releases $name if $owner holds it. The row stays, as ShedLock expects.
UPDATE {lock} SET lock_until = {utc}
WHERE name::text = $name
    -- guard: release-owner | S4 | only_the_owner_releases | AND $2 <> ''
    AND locked_by::text = $owner
    -- guard: release-over | S4 | a_renewal_does_not_bring_an_expired_grant_back
    AND lock_until > {utc}
RETURNING 1::bigint

-- name: minimum_hold(name, owner, keep)
-- Releases $name if $owner holds it, and keeps it for $keep more, as ShedLock does for
-- lockAtLeastFor.
UPDATE {lock} SET lock_until = {utc} + $keep,
    -- guard: kept-of-an-abandoned | S6 | a_clean_up_of_what_is_kept | locked_by = $2
    -- guard: kept-is-not-renewed | S5 | a_renewal_of_what_is_kept | locked_by = $2
    locked_by = $owner || ' released'
WHERE name::text = $name
    -- guard: hold-owner | S4 | a_minimum_hold_by_another
    AND locked_by::text = $owner
    -- guard: hold-over | S5 | a_late_minimum_hold
    AND lock_until > {utc}
RETURNING 1::bigint

-- name: raise(name, owner, token)
-- Raises the token of $name to $token if $owner holds it.
UPDATE {companion} AS c SET
    -- guard: raise-only | S2 | a_raise_to_less | token = $3
    token = greatest(c.token, $token)
WHERE c.name = $name AND EXISTS (
    SELECT 1 FROM {lock} AS l WHERE l.name::text = $name
        -- guard: raise-owner | S4 | a_raise_by_another | AND $2 <> ''
        AND l.locked_by::text = $owner
        -- guard: raise-over | S4 | a_late_raise
        AND l.lock_until > {utc}
)
RETURNING 1::bigint
