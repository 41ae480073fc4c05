-- Second step of a sweep: deletes free rows. A row that was granted since the first step has a larger token, so it stays.
-- A row that somebody waits for stays, too. ?1 now, ?2 epoch.
DELETE FROM {locks} AS l
WHERE (owner IS NULL OR {over ?1 ?2})
    -- guard: sweep-covered
    AND token <= (SELECT watermark FROM {settings})
    AND NOT EXISTS (SELECT 1 FROM {queue} AS q WHERE q.name = l.name)
