-- How a holder gives a lock back, or to the next request of its process.

-- name: release(name, owner, unchecked)
-- Releases the lock if it is $owner's. $unchecked is 1 if the owner has not checked its token: then
-- the row stays marked. The row stays, since it keeps the token. The owner stays in it, so that its
-- length does not change and InnoDB updates it in place. The insert id is the new version.
UPDATE {locks} SET expires = 0, kept = IF($unchecked = 1, kept, 0), version = LAST_INSERT_ID(version + 1)
WHERE name = $name
    -- guard: release-owner | S4 | only_the_owner_releases | AND ? <> ''
    AND owner = $owner
    AND expires > {now}

-- name: keep(name, owner, hold)
-- Lets the lock expire after $hold microseconds if it is $owner's. The insert id is the new
-- version.
UPDATE {locks} SET expires = {now} + $hold, kept = 1, version = LAST_INSERT_ID(version + 1)
WHERE name = $name AND owner = $owner AND expires > {now}

-- name: hand_on(name, owner, label, lease, least, holder)
-- Gives the lock from $holder to $owner, unless a live entry waits for it. The arguments and the
-- insert id are those of a grant in acquire.sql. The new token needs no check: the holder has
-- checked its own, and the new one is higher.
UPDATE {locks} SET
    token = LAST_INSERT_ID(GREATEST({now}, token + 1, $least)),
    owner = $owner, label = $label, version = version + 1, expires = {now} + $lease,
    kept = 0
WHERE name = $name
    -- guard: hand-on-owner | S4 | a_handover(by another) | AND ? <> ''
    AND owner = $holder
    -- guard: hand-on-kept | S4 | a_handover(of what is kept)
    AND kept <> 1
    -- guard: hand-on-expired | S5 | a_handover(too late)
    AND expires > {now}
    AND {not_abandoned} AND NOT {behind}
