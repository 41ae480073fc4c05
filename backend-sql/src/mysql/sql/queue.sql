-- The entries of those who wait. A waiter sends a heartbeat for its entry now and then; without
-- one, the entry counts as dead.

-- name: enter(name, owner, label, floor, shared)
-- Adds the entry of $owner to the end of the queue. If it is already there, this is its heartbeat.
-- The entry of an abandoned owner stays dead. $shared is 1 for a reader.
INSERT INTO {queue} (name, owner, label, floor, shared, heard) VALUES ($name, $owner, $label, $floor, $shared, {now})
ON DUPLICATE KEY UPDATE
    -- guard: enter-abandoned | S6 | an_entry_of_an_abandoned_owner | heard = ABS(heard)
    heard = IF(heard < 0, heard, {now})

-- name: read_place(name, owner, bells)
-- For a writer that waits: whether it holds the lock, the token, whether that is unchecked, what is
-- left of the lease, and how many live entries come first. Last, the owner right before it, or null
-- if the bell of that owner does not hang. $bells is 1 if there are bells.
SELECT IFNULL(owner = $owner, 0), token, kept, GREATEST(expires, {now}) - {now}, {ahead},
    IFNULL(
        (SELECT IF($bells AND IS_FREE_LOCK(CONCAT({bell}, q.owner)) = 0, q.owner, NULL) FROM {queue} AS q
            WHERE q.name = $name AND {alive} AND q.position < (SELECT m.position FROM {queue} AS m WHERE m.name = $name AND m.owner = $owner)
            ORDER BY q.position DESC LIMIT 1),
        {bell_of_holder}
    ) AS bell
FROM {locks} WHERE name = $name

-- name: read_holder(name, owner, bells)
-- The same for the next in line: nobody can come first. It reads no queue.
SELECT IFNULL(owner = $owner, 0), token, kept, GREATEST(expires, {now}) - {now}, 0, {bell_of_holder} AS bell FROM {locks} WHERE name = $name

-- name: waited_for(batch)
-- The store's settings, as `settings` reads them, and the owners of $batch for whose locks somebody
-- waits: one in each row, or null in the only row.
SELECT s.longest_lease, @@autocommit, w.owner FROM {settings} AS s
LEFT JOIN (
    SELECT g.owner FROM {batch} WHERE EXISTS (
        SELECT 1 FROM {queue} AS q WHERE q.name = UNHEX(g.name) AND {alive} AND q.owner <> g.owner
    )
) AS w ON TRUE
WHERE s.id = 1

-- name: sessions
-- How many sessions the server has.
SHOW GLOBAL STATUS WHERE Variable_name = 'Threads_connected'

-- name: most_sessions
-- How many sessions the server allows, and how many of them to this user. 0 means that the user
-- has no limit of its own.
SELECT @@max_connections, @@SESSION.max_user_connections

-- name: sessions_of_user
-- How many sessions this user has.
SELECT COUNT(*) FROM information_schema.processlist AS p
JOIN information_schema.processlist AS o ON o.id = CONNECTION_ID() AND p.user = o.user

-- name: hang_bell(bell)
-- Hangs a bell, unless somebody else has a lock of that name.
DO GET_LOCK($bell, 0)

-- name: ring_bell(bell)
-- Rings a bell of this session.
DO RELEASE_LOCK($bell)

-- name: await_bell(bell, seconds)
-- Waits until a bell rings, or does not hang: 1. If it has not rung in time: 0.
SELECT IF(GET_LOCK($bell, $seconds), RELEASE_LOCK($bell), 0)

-- name: heartbeat(batch)
-- The heartbeat of the entries in $batch, a JSON array of [name in hexadecimal digits, owner]. One
-- statement serves all entries of a client, so that the server flushes once. It adds no entry that
-- is gone, because the owner may have left meanwhile. It skips an entry that another transaction
-- has locked: an UPDATE would wait for it, and delay the heartbeats of all others.
INSERT INTO {queue} (name, position, owner, heard)
SELECT q.name, q.position, q.owner, q.heard
FROM {batch} STRAIGHT_JOIN {queue} AS q ON q.name = UNHEX(g.name) AND q.owner = g.owner
WHERE
    -- guard: heartbeat-abandoned | S6 | an_entry_brought_back | 1 = 1
    q.heard > 0
-- guard: heartbeat-skips | L3 | a_heartbeat_beside_a_locked_entry | FOR UPDATE
FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE heard = {now}

-- name: abandon_entry(name, owner)
-- Makes sure that the abandoned $owner has no live entry, and never gets one. A negative `heard`
-- marks it.
INSERT INTO {queue} (name, owner, heard) VALUES ($name, $owner, -{now}) ON DUPLICATE KEY UPDATE heard = -{now}

-- name: leave(name, owner)
-- Deletes the entry of $owner.
DELETE FROM {queue} WHERE name = $name
    -- guard: leave-owner | L3 | an_entry_of_another | AND ? <> ''
    AND owner = $owner

-- part: behind
-- Whether the first live entry belongs to another owner than $owner.
(IFNULL((SELECT q.owner FROM {queue} AS q WHERE q.name = $name AND {alive} ORDER BY q.position LIMIT 1), $owner)
-- guard: barging | L3 | no_attempt_barges_past_a_waiter | = CONCAT(?, '-')
-- guard: join-barging | L3 | no_reader_passes_a_waiting_writer | = CONCAT(?, '-')
<> $owner
)

-- part: ahead
-- How many live entries come before that of $owner, or if there is none before the end, up to a
-- limit beyond which the number makes no difference.
(SELECT COUNT(*) FROM (
    SELECT 1 FROM {queue} AS q WHERE q.name = $name AND {alive} AND q.position < IFNULL(
        (SELECT m.position FROM {queue} AS m WHERE m.name = $name AND m.owner = $owner), 9223372036854775807
    )
    LIMIT {far}
) AS before_it)

-- part: bell_of_holder
-- The owner of the row, if its bell hangs. MySQL refuses the name of a lock that is null.
IF($bells AND IS_FREE_LOCK(CONCAT({bell}, IFNULL(owner, ''))) = 0, owner, NULL)

-- part: alive
-- Whether the entry `q` is alive. A heartbeat far in the future is from before the clock was set
-- back.
-- guard: entry-alive | L3 | a_dead_entry(old)
q.heard > {now} - {life} AND
-- guard: entry-future | L3 | a_dead_entry(ahead)
q.heard < {now} + {life} AND
q.heard > 0
