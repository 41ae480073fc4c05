-- How a holder keeps a lock. The clocks are those of acquire.sql.

-- name: renew(now, epoch, grants)
-- Renews a batch: $grants is a JSON array of [name, owner, lease]. No lease exceeds the longest
-- lease, which may have been lowered since the grant. The batch may arrive after one that was sent
-- later, so it never shortens a
-- lease, neither `expires` nor `lease`, by which other clocks count. Answers which owners were
-- renewed, and the longest lease in ms.
UPDATE {locks} AS l SET
    lease = CASE WHEN l.epoch = $epoch THEN max(l.expires - $now, g.lease) ELSE g.lease END,
    epoch = $epoch, version = version + 1,
    expires = CASE WHEN l.epoch = $epoch THEN max(l.expires, $now + g.lease) ELSE $now + g.lease END
FROM (
    SELECT value ->> 0 AS name, value ->> 1 AS owner, min(
        -- guard: renew-longest | S1 | a_renewal_above_the_longest_lease
        s.longest_lease * 1000000,
        value ->> 2) AS lease
    FROM json_each($grants), {settings} AS s
) AS g
WHERE l.name = g.name AND l.owner = g.owner AND NOT l.kept
-- guard: renew-expired | S5 | a_renewal_does_not_bring_an_expired_grant_back
AND (l.epoch <> $epoch OR l.expires > $now)
RETURNING owner, (SELECT longest_lease FROM {settings})

-- name: raise(name, owner, now, epoch, token)
-- Raises the token of the lock to $token if it is $owner's.
UPDATE {locks} AS l SET token = max(token, $token), version = version + 1
WHERE name = $name AND (owner = $owner OR {is_reader}) AND (epoch <> $epoch OR expires > $now)
RETURNING version

-- name: reown(name, former, owner, label, lease, now, epoch, token)
-- Gives the lock of $former, with its $token, to $owner, with a new lease. A repeat never shortens
-- the lease, neither `expires` nor `lease`, by which other clocks count.
UPDATE {locks} AS l SET
    lease = CASE WHEN l.owner = $owner AND l.epoch = $epoch THEN max(l.expires - $now, $lease) ELSE $lease END,
    expires = CASE WHEN l.owner = $owner AND l.epoch = $epoch THEN max(l.expires, $now + $lease) ELSE $now + $lease END,
    owner = $owner, label = $label, epoch = $epoch, version = version + 1
WHERE name = $name
    -- guard: reown-owner | S4 | a_lock_is_handed_over_once | AND ?2 <> ''
    AND (l.owner = $former OR l.owner = $owner)
    -- guard: reown-token | S4 | only_the_named_grant_is_handed_over | AND ?8 > 0
    AND l.token = $token
    -- guard: reown-kept | S5 | what_is_gone_is_not_handed_over
    AND NOT l.kept
    -- guard: reown-expired | S5 | what_is_gone_is_not_handed_over
    AND (l.epoch <> $epoch OR l.expires > $now)
    -- guard: reown-abandoned | S6 | an_abandoned_owner_is_handed_nothing
    AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = $owner)
RETURNING version
