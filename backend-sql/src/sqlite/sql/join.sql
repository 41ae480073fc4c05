-- Makes ?2 a reader of ?1. The name is free, and is taken as in insert.sql, or readers share it. An owner that is already
-- a reader renews instead. The arguments and the clocks are those of insert.sql.
-- All readers have one token. The row's lease is the longest of theirs, so it is never shortened. By a clock that is not
-- the row's, it starts anew, for at least the whole lease that the row was given last.
INSERT INTO {locks} AS l (name, owner, readers, label, token, version, lease, expires, epoch, kept)
SELECT ?1, {shared}, ?2 || ',', ?3, max(?7, s.watermark + 1, ?8), 1, ?4, ?5 + ?4, ?6, 0
FROM {settings} AS s
WHERE true
    -- guard: join-abandoned
    AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = ?2)
    -- guard: join-barging
    AND NOT {behind ?5 ?6 ?7}
ON CONFLICT (name) DO UPDATE SET
    token = CASE WHEN {is_shared ?5 ?6} THEN max(l.token, ?8)
        -- guard: join-above
        ELSE max(?7, l.token + 1, ?8)
    END,
    expires = CASE
        -- guard: join-expires
        WHEN {is_shared ?5 ?6} THEN max(CASE WHEN l.epoch = ?6 THEN l.expires ELSE ?5 + l.lease END, ?5 + ?4)
        ELSE ?5 + ?4
    END,
    lease = CASE
        WHEN {is_shared ?5 ?6} THEN max(CASE WHEN l.epoch = ?6 THEN l.expires - ?5 ELSE l.lease END, ?4)
        ELSE ?4
    END,
    readers =
        -- guard: join-others
        CASE WHEN {is_shared ?5 ?6} THEN l.readers ELSE '' END ||
        ?2 || ',',
    owner = {shared}, label = ?3, version = l.version + 1, epoch = ?6, kept = 0
WHERE l.owner IS NULL OR {over ?5 ?6} OR (
    instr(l.readers, ?2) = 0
    -- guard: join-most
    AND length(l.readers) < {most}
)
RETURNING token
