-- The heartbeat of the entries ?1, a JSON array of [name in hexadecimal digits, owner]. It is one statement for all entries of
-- a client, so that the server flushes once. It adds no entry that is gone: its owner may have left meanwhile. One that another
-- transaction has locked is left out, since an UPDATE would wait for it, and all others with it.
INSERT INTO {queue} (name, position, owner, heard)
SELECT q.name, q.position, q.owner, q.heard
FROM {batch} STRAIGHT_JOIN {queue} AS q ON q.name = UNHEX(g.name) AND q.owner = g.owner
WHERE
    -- guard: heartbeat-abandoned
    q.heard > 0
-- guard: heartbeat-skips
FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE heard = {now}
