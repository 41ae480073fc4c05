-- Marks the entry $3 of the owner $2, which waits for $1, as alive for $4, and answers what is known of $1. It writes a
-- row of the entry's own, which an entry at the head makes with its first heartbeat. It only reads the lock's row.
WITH beat AS (
    INSERT INTO {queue} (name, owner, alive) VALUES ($1, $2, {now} + $4)
    ON CONFLICT (name, owner) DO UPDATE SET alive = excluded.alive
    RETURNING entered
)
SELECT {columns}, pg_catalog.array_position(l.waiters, $3) AS position, {short} AS short, false AS granted,
    coalesce(l.far IS NOT NULL AND beat.entered > coalesce(l.moved, 0::bigint), false) AS behind,
    -- Beyond 200 the number makes no difference.
    (SELECT pg_catalog.count(*) FROM (
        SELECT 1 FROM {queue} AS b
        WHERE b.name = $1 AND b.entered > coalesce(l.moved, 0::bigint) AND b.entered < beat.entered LIMIT 200
    ) AS b) AS before
FROM {locks} AS l CROSS JOIN beat WHERE l.name = $1
