-- First step of a sweep: deletes at most $1 free rows whose tokens the watermark has covered for a minute. A statement that inserts
-- such a row again has read that watermark, because no statement older than half a minute succeeds (insert.sql). A row
-- stays if somebody waits for it, or if it has tombstones. Rows that another transaction has locked are left to the next sweep:
-- nothing waits for them while it holds other rows. Answers how many rows it deleted.
WITH free AS (
    SELECT l.name FROM {locks} AS l, {marker} AS m
    WHERE (l.owner IS NULL OR l.expires <= {now})
        -- guard: sweep-covered
        AND l.token <= m.watermark AND m.raised + interval '1 minute' <= {now}
        AND NOT EXISTS (
            SELECT 1 FROM pg_catalog.unnest(l.alive) AS alive WHERE alive > {now} - interval '1 minute'
        )
        -- `far` is about the time at which the last entry joined the tail.
        AND (l.far IS NULL OR l.far < {micros} - 60000000::bigint AND NOT EXISTS (
            SELECT 1 FROM {queue} AS b WHERE b.name = l.name AND b.alive > {now} - interval '1 minute'
        ))
        AND NOT EXISTS (SELECT 1 FROM pg_catalog.unnest(l.buried_at) AS at WHERE at > {now} - interval '1 hour')
    LIMIT $1::bigint
    -- guard: sweep-skips
    FOR UPDATE OF l SKIP LOCKED
),
swept AS (
    DELETE FROM {locks} AS l USING free WHERE l.name = free.name
    RETURNING 1
)
SELECT pg_catalog.count(*) FROM swept
