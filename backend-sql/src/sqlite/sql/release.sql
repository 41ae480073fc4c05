-- How a holder gives a lock back, and who gets it next. The clocks are those of acquire.sql.

-- name: release(name, owner, now, epoch, wall, next, next_label, next_lease, next_floor)
-- Releases the lock if it is $owner's. The first live entry gets the lock, for the time in which a
-- new holder must renew it. If that entry is a reader's, it starts to share the lock. If nobody
-- waits, $next gets the lock: the next request of the same process, with its label, lease and
-- floor. These are null if there is none: then the lock is free. If $next was abandoned, the
-- statement does nothing. The row stays, since it keeps the token.
UPDATE {locks} AS l SET
    owner = g.owner, readers = g.readers, label = g.label, bell = g.bell, version = version + 1, kept = 0,
    token = CASE WHEN g.owner IS NULL THEN l.token
        -- guard: pass-token | S2 | waiters_are_served_in_order | ELSE l.token
        ELSE max($wall, l.token + 1, g.floor + 1)
    END,
    lease = coalesce(g.lease, l.lease),
    expires = coalesce($now + g.lease, l.expires),
    epoch = CASE WHEN g.owner IS NULL THEN l.epoch ELSE $epoch END
FROM (
    SELECT * FROM (
        SELECT q.position, CASE WHEN q.shared THEN {shared} ELSE q.owner END AS owner,
            CASE WHEN q.shared THEN json_object(q.owner, $now + {claim_window}) END AS readers, q.label, q.floor, q.bell, {claim_window} AS lease
        FROM {queue} AS q WHERE q.name = $name AND {alive}
        ORDER BY
        -- guard: pass-first | L3 | waiters_are_served_in_order | -q.position
        q.position
        LIMIT 1
    )
    UNION ALL
    SELECT 9223372036854775807, $next, NULL, $next_label, $next_floor, NULL, $next_lease
    WHERE true
    -- guard: pass-abandoned | S6 | an_abandoned_owner_that_a_release_carries
    AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = $next)
    ORDER BY 1 LIMIT 1
) AS g
WHERE l.name = $name
    -- guard: release-owner | S4 | only_the_owner_releases
    AND l.owner = $owner
    AND (l.epoch <> $epoch OR l.expires > $now)
RETURNING version, coalesce(substr(readers, 3, 32), owner), token, bell

-- name: keep(name, owner, now, epoch, lease)
-- Lets the lock expire after $lease if it is $owner's.
UPDATE {locks} SET lease = $lease, expires = $now + $lease, epoch = $epoch, kept = 1, version = version + 1
WHERE name = $name AND owner = $owner AND (epoch <> $epoch OR expires > $now)
RETURNING version
