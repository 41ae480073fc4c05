-- How a holder keeps a lock. A renewal may arrive after one that was sent later, so it never
-- shortens a lease. No lease exceeds the longest lease, which may have been lowered since the
-- grant.

-- name: renew(names, owners, leases)
-- Renews a batch. Each array has one value per grant. Rows that another transaction has locked are
-- skipped, because an UPDATE would wait for them. Answers which owners were renewed, and the lease
-- in µs.
WITH ours AS (
    SELECT l.name, least(
        -- guard: renew-longest | S1 | a_renewal_above_the_longest_lease
        (SELECT s.longest_lease FROM {settings} AS s),
        g.lease) AS lease
    FROM unnest($names::text[], $owners::text[], $leases::interval[]) AS g (name, owner, lease)
    JOIN {locks} AS l ON l.name = g.name AND l.owner = g.owner
    WHERE NOT l.kept
    -- guard: renew-expired | S5 | a_renewal_does_not_bring_an_expired_grant_back
    AND l.expires > {now}
    -- guard: renew-skips | L5 | a_batch_beside_a_locked_row | FOR UPDATE OF l
    FOR UPDATE OF l SKIP LOCKED
)
UPDATE {locks} AS l SET expires = greatest(l.expires, {now} + ours.lease)
FROM ours WHERE l.name = ours.name
RETURNING l.owner, (pg_catalog.date_part('epoch', ours.lease) * 1000000::double precision)::bigint

-- name: renew_one(name, owner, lease)
-- Renews for $lease if the lock is $owner's. Waits for the row. Answers the lease in µs.
UPDATE {locks} AS l SET expires = greatest(l.expires, {now} + least(
        (SELECT s.longest_lease FROM {settings} AS s),
        $lease::interval)),
    readers = CASE WHEN l.owner = {shared} THEN pg_catalog.jsonb_set(
        l.readers, ARRAY[$owner], pg_catalog.to_jsonb(greatest((l.readers ->> $owner::text)::bigint, {micros} + (
            SELECT pg_catalog.date_part('epoch', least(s.longest_lease, $lease::interval)) * 1000000::double precision
            FROM {settings} AS s
        )::bigint))
    ) ELSE l.readers END
WHERE name = $name AND (owner = $owner OR {is_reader}) AND NOT l.kept
    -- guard: renew-one-expired | S5 | a_renewal_that_waits_for_the_row
    AND l.expires > {now}
RETURNING (
    SELECT (pg_catalog.date_part('epoch', least(s.longest_lease, $lease)) * 1000000::double precision)::bigint FROM {settings} AS s
)

-- name: raise(name, owner, token)
-- Raises the token of the lock to $token if it is $owner's.
UPDATE {locks} AS l SET token = greatest(l.token, $token)
WHERE name = $name AND (owner = $owner OR {is_reader}) AND expires > {now}
RETURNING version

-- name: reown(name, former, owner, label, lease, token)
-- Gives the lock of $former, with its $token, to $owner, with a new lease. A repeat never shortens
-- the lease. It checks the marker as a grant does: a store that has lost data may have lost the
-- statement before, which gave the lock to another owner.
UPDATE {locks} AS l SET
    expires = CASE WHEN l.owner = $owner THEN greatest(l.expires, {now} + $lease::interval) ELSE {now} + $lease::interval END,
    owner = $owner, label = $label, version = l.version + 1
WHERE name = $name
    -- guard: reown-owner | S4 | a_lock_is_handed_over_once | AND $2 <> ''
    AND (l.owner = $former::text OR l.owner = $owner)
    -- guard: reown-token | S4 | only_the_named_grant_is_handed_over | AND $6 > 0::bigint
    AND l.token = $token::bigint
    -- guard: reown-kept | S5 | what_is_gone_is_not_handed_over
    AND NOT l.kept
    -- guard: reown-expired | S5 | what_is_gone_is_not_handed_over
    AND l.expires > {now}
    AND EXISTS (SELECT 1 FROM {marker} AS m WHERE {granting})
    AND {not_abandoned}
RETURNING version
