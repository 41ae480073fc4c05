-- The place $3 of $2, which waits for $1, counts as alive for $4; and what is known of $1. Writes a row of the place's own,
-- which a place near the head makes with its first heartbeat: the row of the lock is only read.
WITH beat AS (
    INSERT INTO {places} (name, owner, alive) VALUES ($1, $2, {now} + $4)
    ON CONFLICT (name, owner) DO UPDATE SET alive = excluded.alive
    RETURNING entered
)
SELECT {columns}, pg_catalog.array_position(l.waiters, $3) AS place, {short} AS short, false AS granted,
    coalesce(l.far IS NOT NULL AND beat.entered > coalesce(l.moved, 0::bigint), false) AS behind,
    -- Further back it makes no difference how many there are.
    (SELECT pg_catalog.count(*) FROM (
        SELECT 1 FROM {places} AS b
        WHERE b.name = $1 AND b.entered > coalesce(l.moved, 0::bigint) AND b.entered < beat.entered LIMIT 200
    ) AS b) AS before
FROM {locks} AS l CROSS JOIN beat WHERE l.name = $1
