-- The queue: who waits, in the order of the positions. The clocks are those of acquire.sql.

-- name: enter(name, owner, label, floor, bell, now, epoch, wall, shared)
-- Adds the entry of $owner to the end of the queue. If it is already there, this is its heartbeat.
-- An abandoned owner gets no entry. Nor does an owner that holds the lock: it would be served again
-- after its release. $bell is null if the process polls; $shared is 1 for a reader.
INSERT INTO {queue} (name, position, owner, label, floor, bell, heard, epoch, wall, shared)
SELECT $name, coalesce((SELECT max(position) FROM {queue} WHERE name = $name), 0) + 1, $owner, $label, $floor, $bell, $now, $epoch, $wall, $shared
WHERE true
    -- guard: enter-abandoned | S6 | an_entry_of_an_abandoned_owner
    AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = $owner)
    -- guard: enter-holds | S6 | an_entry_behind_itself
    AND NOT EXISTS (SELECT 1 FROM {locks} AS l WHERE l.name = $name AND (l.owner = $owner OR {is_reader}) AND NOT {over})
ON CONFLICT (name, owner) DO UPDATE SET
    bell = excluded.bell, heard = excluded.heard, epoch = excluded.epoch, wall = excluded.wall

-- name: leave(name, owner)
-- Deletes the entry of $owner.
DELETE FROM {queue} WHERE name = $name
    -- guard: leave-owner | L3 | an_entry_of_another
    AND owner = $owner

-- name: first(name, now, epoch, wall)
-- The entry to wake if the lock is free, or free for readers: the first live one, and its bell if
-- it has one. No row if the lock is held.
SELECT owner, bell FROM (SELECT * FROM {queue} AS q
WHERE q.name = $name AND {alive} ORDER BY q.position LIMIT 1) AS q
WHERE NOT EXISTS (SELECT 1 FROM {locks} AS l WHERE l.name = $name AND l.owner IS NOT NULL AND NOT {over}
        AND NOT (q.shared AND l.readers IS NOT NULL))

-- part: behind
-- Whether the first live entry belongs to another owner.
(coalesce((SELECT q.owner FROM {queue} AS q WHERE q.name = $name AND {alive} ORDER BY q.position LIMIT 1), $owner) <> $owner)

-- part: alive
-- Whether the entry `q` is alive.
CASE WHEN q.epoch = $epoch THEN
-- guard: entry-alive | L3 | a_dead_entry | true
q.heard > $now - {life}
ELSE abs(q.wall - $wall) < {life} / 1000 END
