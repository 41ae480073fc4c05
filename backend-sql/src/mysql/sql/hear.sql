-- The places ?1, a JSON array of [name in hexadecimal digits, owner], are alive: all that a client has in one statement, so that
-- it flushes once. A place that is gone stays so: its owner may have left meanwhile.
UPDATE {batch} STRAIGHT_JOIN {queue} ON {queue}.name = UNHEX(g.name) AND {queue}.owner = g.owner
SET {queue}.heard = {now}
WHERE
    -- guard: hear-abandoned
    {queue}.heard > 0
