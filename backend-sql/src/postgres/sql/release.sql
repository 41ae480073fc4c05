-- How a holder gives a lock back, and who gets it next. The row stays, since it keeps the token.

-- name: release(name, owner)
-- Releases the lock if it is $owner's and nobody waits for it.
UPDATE {locks} SET owner = NULL
WHERE name = $name
    -- guard: release-owner | S4 | only_the_owner_releases | AND $2 <> ''
    AND owner = $owner
    AND expires > {now} AND waiters IS NULL
RETURNING version

-- name: release_and_notify(name, owner)
-- Releases the lock if it is $owner's, and notifies the first waiter. Answers the version, and
-- whether entries should move from the tail of the queue to its head.
UPDATE {locks} AS l SET owner = NULL
WHERE name = $name AND owner = $owner AND expires > {now}
RETURNING version, {short}, CASE WHEN waiters[1] IS NOT NULL THEN {notify_first} END

-- name: release_to_waiter(name, owner, claim, next_entry, life)
-- Releases the lock if it is $owner's, and grants it to the first waiter, which is notified and has
-- the time $claim to `confirm` the grant. Before that, $next_entry of the same process joins the
-- end of the queue, if the head has room for it; it counts as alive for $life. It is null if there
-- is none.
-- Does nothing if the first entry is not alive, or must ask for the lock itself. The row was
-- granted in this very store, which shows that nothing was lost since: see `retake`.
-- Answers the token, whether $next_entry joined the queue, and whether entries should move from the
-- tail of the queue to its head.
UPDATE {locks} AS l SET
    owner = pg_catalog.left(l.waiters[1], 32), label = pg_catalog.substr(l.waiters[1], 66),
    client = pg_catalog.substr(l.waiters[1], 33, 32),
    token = greatest({micros}, l.token + 1), version = l.version + 1,
    expires = {now} + $claim::interval, kept = false,
    waiters = CASE
        WHEN $next_entry::text IS NOT NULL AND l.far IS NULL AND pg_catalog.cardinality(l.waiters) <= {near}
            THEN pg_catalog.array_append(l.waiters[2:], $next_entry)
        WHEN pg_catalog.cardinality(l.waiters) > 1 OR l.far IS NOT NULL THEN l.waiters[2:] END,
    alive = CASE
        WHEN $next_entry IS NOT NULL AND l.far IS NULL AND pg_catalog.cardinality(l.waiters) <= {near}
            THEN pg_catalog.array_append(l.alive[2:], {now} + $life::interval)
        WHEN pg_catalog.cardinality(l.waiters) > 1 OR l.far IS NOT NULL THEN l.alive[2:] END,
    turn = NULL
WHERE name = $name AND owner = $owner AND expires > {now}
    AND pg_catalog.substr(l.waiters[1], 65, 1) = '+' AND (
        -- guard: pass-alive | L2 | a_release_to_a_new_entry
        l.alive[1] > {now} OR
        -- guard: pass-heartbeat | L2 | a_release_to_an_old_entry
        EXISTS (SELECT 1 FROM {queue} AS b WHERE b.name = $name AND b.owner = pg_catalog.left(l.waiters[1], 32) AND b.alive > {now}) OR
        false
    )
    AND (l.buried IS NULL OR coalesce(pg_catalog.left($next_entry, 32), '') <> ALL (l.buried))
    -- guard: pass-store | S1 | a_release_to_an_entry_in_a_copied_database
    AND l.store = {here}
    AND l.itself = {locks_file}
    AND {persistence}
RETURNING token, coalesce($next_entry = ANY (waiters), false), {short}, pg_catalog.pg_notify(
    -- guard: pass-tells | L2 | a_release_notifies(granted) | 'elsewhere' || client,
    {channel} || client,
    owner || '+'
)

-- name: hand_on(name, owner, next, label, lease, floor)
-- Releases the lock if it is $owner's and nobody waits for it, and grants it to $next, the next
-- request of the same process, with its label, lease and floor. The row was granted in this very
-- store, which shows that nothing was lost since: see `retake`.
UPDATE {locks} AS l SET
    owner = $next, label = $label, token = greatest({micros}, l.token + 1, $floor), version = l.version + 1,
    expires = {now} + $lease, kept = false
WHERE name = $name AND owner = $owner AND expires > {now} AND l.waiters IS NULL
    AND (l.buried IS NULL OR $next <> ALL (l.buried))
    -- guard: hand-on-store | S1 | a_release_with_a_next_in_a_copied_database
    AND l.store = {here}
    AND l.itself = {locks_file}
    AND {persistence}
RETURNING token

-- name: keep(name, owner, lease)
-- Lets the lock expire after $lease if it is $owner's.
UPDATE {locks} SET expires = {now} + $lease, kept = true
WHERE name = $name AND owner = $owner AND expires > {now}
RETURNING version
