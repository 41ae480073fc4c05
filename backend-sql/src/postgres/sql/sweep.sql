-- First step of a sweep: forgets free rows whose tokens the watermark has covered for a minute. A
-- statement that makes such a row anew, however long it has waited, has read that watermark. A row
-- that somebody waits for, or that keeps a ghost away, stays.
DELETE FROM {locks} AS l USING {marker} AS m
WHERE (l.owner IS NULL OR l.expires <= {now})
    AND l.token <= m.watermark AND m.raised + interval '1 minute' <= {now}
    AND NOT EXISTS (
        SELECT 1 FROM unnest(l.heard) AS heard WHERE heard > {now} - interval '1 minute'
    )
    AND NOT EXISTS (SELECT 1 FROM unnest(l.buried_at) AS at WHERE at > {now} - interval '1 hour')
