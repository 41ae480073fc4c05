-- How a holder gives a lock back, or to the next owner.

-- name: release(name, owner, unchecked)
-- Releases the lock if it is $owner's. $unchecked is 1 if the owner has not checked its token: then
-- the row stays marked. The row stays, since it keeps the token. The owner stays in it, so that its
-- length does not change and InnoDB updates it in place. The insert id is the new version.
UPDATE {locks} SET expires = 0, kept = IF($unchecked = 1, kept, 0), version = LAST_INSERT_ID(version + 1)
WHERE name = $name
    -- guard: release-owner | S4 | only_the_owner_releases | AND ? <> ''
    AND owner = $owner
    AND expires > {now}

-- name: handoff(name, owner)
-- Releases the lock if it is $owner's, and gives it to the first entry, for the time in which a new
-- holder must renew it. If that entry is a reader's, it starts to share the lock. The new token
-- needs no check: the holder has checked its own, and the new one is higher. If nobody waits, the
-- lock is free. The number of affected rows says whether it was $owner's.
--
-- All assignments read the same state of the queue, without locks: an entry that another
-- transaction has locked delays nothing.
UPDATE {locks} SET
    token = IFNULL((SELECT
        -- guard: handoff-token | S2 | a_token_of_a_handoff(holder) |
        --   GREATEST(UNIX_TIMESTAMP(NOW(6)) * 1000000, q.floor + 1)
        -- guard: handoff-floor | S2 | a_token_of_a_handoff(floor) |
        --   GREATEST(UNIX_TIMESTAMP(NOW(6)) * 1000000, leasehold_locks.token + 1)
        GREATEST({now}, {locks}.token + 1, q.floor + 1)
        {first}), token),
    label = IFNULL((SELECT q.label {first}), label),
    readers = IFNULL((SELECT IF(q.shared, CONCAT(q.owner, '-', LPAD({now} + {claim_window}, 16, '0'), ','), NULL) {first}), readers),
    expires = IFNULL((SELECT {now} + {claim_window} {first}), 0),
    owner = IFNULL((SELECT IF(q.shared, {shared}, q.owner) {first}), owner),
    version = version + 1, kept = 0
WHERE name = $name
    -- guard: handoff-owner | S4 | a_handoff_to_a_waiter(of another) | AND ? <> ''
    AND owner = $owner
    -- guard: handoff-expired | S5 | a_handoff_to_a_waiter(too late)
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
    -- guard: hand-on-owner | S4 | a_handoff(by another) | AND ? <> ''
    AND owner = $holder
    -- guard: hand-on-kept | S4 | a_handoff(of what is kept)
    AND kept <> 1
    -- guard: hand-on-expired | S5 | a_handoff(too late)
    AND expires > {now}
    AND {not_abandoned} AND NOT {behind}

-- part: first
-- The first live entry, unless it is $owner's or that of an abandoned owner. It names columns of
-- the row, so the server reads the queue when it has locked the row, and does not find an entry
-- that was deleted before.
FROM {queue} AS q WHERE q.name = $name AND {alive} AND q.owner <> $owner
-- guard: handoff-abandoned | S6 | a_handoff_to_a_waiter(to an abandoned one)
AND ({locks}.buried IS NULL OR LOCATE(q.owner, {locks}.buried) = 0)
ORDER BY
-- guard: handoff-first | L3 | a_handoff_to_a_waiter(in order) | -q.position
q.position
LIMIT 1
