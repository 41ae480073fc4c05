-- First step of a sweep: deletes free rows whose tokens the watermark has covered for a minute. A statement that inserts
-- such a row again has read that watermark, because no statement older than half a minute succeeds (insert.sql). The
-- sweep itself may wait as long as it likes: when it gets a row, it reads everything anew except the marker, and what
-- that covered then is still covered. A row stays if somebody waits for it, or if it has tombstones.
DELETE FROM {locks} AS l USING {marker} AS m
WHERE (l.owner IS NULL OR l.expires_2 <= {now})
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
