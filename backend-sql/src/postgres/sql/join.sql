-- Makes $2 a reader of $1. The name is free, and is taken as in insert.sql, or readers share it and nobody waits. The
-- arguments are those of insert.sql. All readers have one token, and the row's lease is the longest of theirs.
INSERT INTO {locks} AS l (name, owner, readers, label, token, version, expires, kept, store, itself)
SELECT $1, {shared}, pg_catalog.concat($2, ','), $3, greatest({micros}, m.watermark + 1, $5), 1, {now} + $4, false,
    m.store, '{locks}'::regclass
FROM {marker} AS m WHERE {granting}
ON CONFLICT (name) DO UPDATE SET
    token = CASE WHEN {open} THEN greatest(l.token, $5)
        -- guard: join-above
        ELSE greatest({micros}, l.token + 1, $5)
    END,
    expires = greatest({now} + $4, CASE WHEN {open} THEN
        -- guard: join-expires
        l.expires
    END),
    readers = pg_catalog.concat(CASE WHEN {open} THEN
        -- guard: join-others
        l.readers
    END, $2, ','),
    owner = {shared}, label = $3, version = l.version + 1, kept = false, store = excluded.store, itself = excluded.itself
WHERE (l.owner IS NULL OR l.expires <= {now} OR {open}) AND
    -- guard: join-barging
    l.waiters IS NULL AND
    {not_abandoned}
RETURNING token / {young}
