-- How a client waits for a lock. `attempt_in_queue.sql` enters an entry.
--
-- $entry has the form of one in `waiters`: see `schema.sql`. An entry is alive for $life after each
-- heartbeat.

-- name: confirm(name, owner, lease)
-- Renews for $lease what another client's release granted to $owner, as for a repeat of the owner,
-- and answers the token, and whether others wait. The message of the release is only a hint that
-- this is worth asking.
UPDATE {locks} AS l SET expires = greatest(l.expires, {now} + $lease::interval)
WHERE name = $name
    -- guard: confirm-owner | S1 | a_forged_message
    AND owner = $owner
    AND NOT l.kept
    -- guard: confirm-expired | S5 | a_late_confirmation
    AND l.expires > {now}
RETURNING token, {others_wait}

-- name: heartbeat(name, owner, entry, life)
-- Marks $entry as alive, and answers what is known of the name. It writes a row of the entry's own,
-- which an entry at the head makes with its first heartbeat. It only reads the lock's row.
WITH beat AS (
    INSERT INTO {queue} (name, owner, alive) VALUES ($name, $owner, {now} + $life)
    ON CONFLICT (name, owner) DO UPDATE SET alive = excluded.alive
    RETURNING entered
)
SELECT {columns}, pg_catalog.array_position(l.waiters, $entry) AS position, {short} AS short, false AS granted,
    coalesce(l.far IS NOT NULL AND beat.entered > coalesce(l.moved, 0::bigint), false) AS behind,
    -- Beyond 200 the number makes no difference.
    (SELECT pg_catalog.count(*) FROM (
        SELECT 1 FROM {queue} AS b
        WHERE b.name = $name AND b.entered > coalesce(l.moved, 0::bigint) AND b.entered < beat.entered LIMIT 200
    ) AS b) AS before
FROM {locks} AS l CROSS JOIN beat WHERE l.name = $name

-- name: is_turn(name, entry)
-- Whether $entry should ask for the lock: a release granted the lock to it, or no live entry comes
-- first and the lock is free or open to this reader. Others may stand behind an entry that was
-- granted the lock.
SELECT NOT EXISTS (
    SELECT 1 FROM {locks} AS l WHERE name = $name AND CASE
        WHEN l.owner = {shared} AND l.expires > {now} AND pg_catalog.substr($entry, 65, 1) = '*'
            THEN waiters[1] IS DISTINCT FROM $entry
        -- guard: check-sees-grants | L2 | a_release_to_a_waiter_that_polls | WHEN false THEN false
        WHEN owner IS NOT NULL AND expires > {now} THEN owner <> pg_catalog.left($entry, 32)
        ELSE waiters IS NOT NULL AND waiters[1] <> $entry AND coalesce(turn > {now}, true)
    END
)

-- name: leave(name, owner, entry)
-- Removes $entry from the queue, and takes away what its owner was granted. If that leaves the lock
-- free, notifies the next entry. Answers whether entries should move from the tail of the queue to
-- its head.
WITH gone AS (
    UPDATE {locks} AS l SET
        owner = CASE WHEN l.owner = $owner THEN NULL ELSE l.owner END,
        turn = CASE WHEN l.waiters[1] = $entry THEN NULL ELSE l.turn END,
        (waiters, alive) = {without}
    -- An entry in the tail locks the row, too, so that it waits for a statement that is moving it
    -- to the head.
    WHERE name = $name AND (l.owner = $owner OR $entry = ANY (l.waiters) OR l.far IS NOT NULL)
    RETURNING {short} AS short, CASE
        WHEN (owner IS NULL OR expires <= {now} OR {reader_next}) AND waiters[1] IS NOT NULL THEN {notify_first}
    END AS notified
),
forgotten AS (
    DELETE FROM {queue} WHERE name = $name
        -- guard: leave-behind | L3 | one_of_two_behind_leaves
        AND owner = $owner
)
SELECT * FROM gone

-- name: refill(name)
-- Moves entries from the tail of the queue to its head, if half of the head is free, and deletes
-- the rows of entries that moved earlier and are gone. If the lock is free, notifies the first
-- entry.
-- Entries join the tail one after the other, each under the row's lock. So this statement sees the
-- first of them in their order, even if it waited for the row; it may miss the last ones. It treats
-- the tail as empty only if nobody has joined the tail since it began. An entry that left meanwhile
-- counts as dead.
WITH gone AS (
    DELETE FROM {queue} AS p USING {locks} AS s
    WHERE s.name = $name AND p.name = $name AND p.entered <= s.moved AND p.entry <> ALL (s.waiters)
)
UPDATE {locks} AS l SET (waiters, alive, moved, far) = (
    SELECT
        CASE WHEN e.some THEN pg_catalog.array_cat(l.waiters, coalesce(n.entries, ARRAY[]::text[])) END,
        CASE WHEN e.some THEN pg_catalog.array_cat(l.alive, coalesce(n.alive, ARRAY[]::timestamptz[])) END,
        e.moved,
        CASE WHEN coalesce(e.moved < l.far, true) THEN l.far END
    FROM (
        SELECT pg_catalog.array_agg(p.entry ORDER BY p.entered) AS entries, pg_catalog.array_agg(p.alive ORDER BY p.entered) AS alive,
            pg_catalog.count(*) AS taken, pg_catalog.max(p.entered) AS last
        FROM (
            SELECT b.entry, b.alive, b.entered FROM {queue} AS b
            WHERE b.name = $name AND b.alive > {now}
                -- guard: refill-moved | L3 | a_queue_that_moves_on
                AND b.entered > coalesce(l.moved, 0::bigint)
            ORDER BY b.entered LIMIT {near} - pg_catalog.cardinality(l.waiters)
        ) AS p
    ) AS n
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN n.taken < {near} - pg_catalog.cardinality(l.waiters)
                -- guard: refill-newest | L3 | a_queue_that_moves_on_while_one_enters
                AND l.far = (SELECT s.far FROM {locks} AS s WHERE s.name = $name)
                THEN l.far
            ELSE coalesce(n.last, l.moved)
        END AS moved
    ) AS m
    CROSS JOIN LATERAL (
        SELECT m.moved, n.taken > 0 OR pg_catalog.cardinality(l.waiters) > 0 OR coalesce(m.moved < l.far, true) AS some
    ) AS e
)
WHERE name = $name AND {short}
RETURNING CASE WHEN (owner IS NULL OR expires <= {now} OR {reader_next}) AND waiters[1] IS NOT NULL THEN {notify_first} END

-- name: notify(channel)
-- Sends an empty message to $channel.
SELECT pg_catalog.pg_notify($channel, '')

-- part: without
-- The head of the queue without the entry of $owner: the entries, and until when they are alive.
(
    SELECT
        CASE WHEN l.far IS NULL THEN q.entries ELSE coalesce(q.entries, ARRAY[]::text[]) END,
        CASE WHEN l.far IS NULL THEN q.alive ELSE coalesce(q.alive, ARRAY[]::timestamptz[]) END
    FROM (
        SELECT pg_catalog.array_agg(p.entry ORDER BY p.at) AS entries, pg_catalog.array_agg(p.alive ORDER BY p.at) AS alive
        FROM unnest(l.waiters, l.alive) WITH ORDINALITY AS p (entry, alive, at)
        WHERE pg_catalog.left(p.entry, 32) <> $owner
    ) AS q
)

-- part: notify_first
-- Notifies the client of the first entry. An entry begins with the 32 digits of its owner and those
-- of its client.
pg_catalog.pg_notify(
-- guard: tells-first | L2 | a_release_notifies(asking) | 'elsewhere'
{channel} || pg_catalog.substr(waiters[1], 33, 32)
, pg_catalog.left(waiters[1], 32))

-- part: others_wait
-- Whether somebody else waits.
(waiters IS NOT NULL AND (far IS NOT NULL OR pg_catalog.cardinality(waiters) > 0))

-- part: waiting
-- How many wait, for operators.
pg_catalog.cardinality(waiters)::bigint + CASE WHEN far IS NULL THEN 0::bigint ELSE (
SELECT pg_catalog.count(*) FROM {queue} AS b
WHERE b.name = l.name AND b.entered > coalesce(l.moved, 0::bigint)) END AS waiting_all

-- part: is_behind
-- Whether $owner has an entry in the tail of the queue.
-- It is one line, since a broken variant leaves out the line after a guard.
(l.far IS NOT NULL AND EXISTS (SELECT 1 FROM {queue} AS b WHERE b.name = $name AND b.owner = $owner AND b.entered > coalesce(l.moved, 0::bigint)))

-- part: short
-- Whether entries should move from the tail to the head: half of the head is free.
(far IS NOT NULL AND coalesce(pg_catalog.cardinality(waiters), 0) < {near} / 2)
