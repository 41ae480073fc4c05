-- Third step: forgets those of the names ?1, a JSON array of [name in hexadecimal digits], that are still free, whose tokens
-- the watermark ?2 covers, and that nobody else has locked.
DELETE {locks} FROM (
    SELECT l.name FROM {batch} STRAIGHT_JOIN {locks} AS l ON l.name = UNHEX(g.name)
    WHERE l.expires <= {now} AND l.token <= ?2 AND (l.buried_at IS NULL OR l.buried_at < {now} - {remembered})
    LIMIT 1000000
    -- guard: sweep-skips
    FOR UPDATE SKIP LOCKED
) AS free STRAIGHT_JOIN {locks} ON {locks}.name = free.name
