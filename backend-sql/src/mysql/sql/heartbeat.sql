-- The heartbeat of the entries ?1, a JSON array of [name in hexadecimal digits, owner]. It is one statement for all entries of
-- a client, so that the server flushes once. It adds no entry that is gone: its owner may have left meanwhile.
UPDATE {batch} STRAIGHT_JOIN {queue} ON {queue}.name = UNHEX(g.name) AND {queue}.owner = g.owner
SET {queue}.heard = {now}
WHERE
    -- guard: heartbeat-abandoned
    {queue}.heard > 0
