-- Second step: forgets free rows. One that was granted since the first step has a larger token, and
-- stays, and so does one that somebody waits for. ?1 now, ?2 epoch.
DELETE FROM {locks} AS l
WHERE (owner IS NULL OR {over ?1 ?2})
    -- guard: sweep-covered
    AND token <= (SELECT watermark FROM {settings})
    AND NOT EXISTS (SELECT 1 FROM {queue} AS q WHERE q.name = l.name)
