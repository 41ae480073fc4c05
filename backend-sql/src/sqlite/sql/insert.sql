-- Takes a name that has no row, or is released or expired, if no live entry comes first. If the owner already holds the
-- lock, sets its lease anew.
-- ?1 name, ?2 owner, ?3 label, ?4 lease, ?5 now, ?6 epoch, ?7 wall clock in µs, ?8 floor + 1.
-- The clocks may be older than this statement, by the time that it waited for the database. Then the new lease ends
-- earlier, or a held lock looks held for longer, never the other way round. A repeat may arrive after a renewal that was
-- sent later, so it never shortens the lease, neither `expires` nor `lease`, by which other clocks count.
INSERT INTO {locks} AS l (name, owner, label, token, version, lease, expires, epoch, kept)
SELECT ?1, ?2, ?3, max(
    ?7,
    -- guard: watermark
    s.watermark + 1,
    ?8), 1, ?4, ?5 + ?4, ?6, 0
FROM {settings} AS s
WHERE true
    -- guard: abandoned
    AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = ?2)
    -- guard: barging
    AND NOT {behind ?5 ?6 ?7}
ON CONFLICT (name) DO UPDATE SET
    token = CASE
        WHEN l.owner = ?2 AND (l.epoch <> ?6 OR l.expires > ?5) THEN l.token
        -- guard: token-above
        ELSE max(?7, l.token + 1, ?8)
    END,
    expires = CASE
        WHEN l.owner = ?2 AND l.epoch = ?6 THEN max(l.expires, ?5 + ?4)
        ELSE ?5 + ?4
    END,
    lease = CASE
        WHEN l.owner = ?2 AND l.epoch = ?6 THEN max(l.expires - ?5, ?4)
        ELSE ?4
    END,
    -- guard: held-alone
    readers = NULL,
    owner = ?2, label = ?3, version = l.version + 1, epoch = ?6, kept = 0
-- guard: held
WHERE l.owner IS NULL OR (l.owner = ?2 AND NOT l.kept) OR {over ?5 ?6}
RETURNING token
