-- First step of a sweep: forgets free rows whose tokens the watermark has covered for a minute. A
-- statement that makes such a row anew has read that watermark: none that is older than half a minute comes to
-- its end (insert.sql). This one may wait for as long as it likes: when it has a row, all is looked at anew but
-- the marker, and what that covered then it covers still. A row that somebody waits for, or that has tombstones
-- away, stays.
DELETE FROM {locks} AS l USING {marker} AS m
WHERE (l.owner IS NULL OR l.expires_2 <= {now})
    -- guard: sweep-covered
    AND l.token <= m.watermark AND m.raised + interval '1 minute' <= {now}
    AND NOT EXISTS (
        SELECT 1 FROM pg_catalog.unnest(l.alive) AS alive WHERE alive > {now} - interval '1 minute'
    )
    -- The position of the last that entered behind is about the time at which it did.
    AND (l.far IS NULL OR l.far < {micros} - 60000000::bigint AND NOT EXISTS (
        SELECT 1 FROM {places} AS b WHERE b.name = l.name AND b.alive > {now} - interval '1 minute'
    ))
    AND NOT EXISTS (SELECT 1 FROM pg_catalog.unnest(l.buried_at) AS at WHERE at > {now} - interval '1 hour')
