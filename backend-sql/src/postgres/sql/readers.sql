-- Readers that share a lock. All have one token, and the row's lease is the longest of theirs.

-- name: join(name, owner, label, lease, floor)
-- Makes $owner a reader. The name is free, and is taken as by `insert`, or readers share it and nobody waits.
INSERT INTO {locks} AS l (name, owner, readers, label, token, version, expires, kept, store, itself)
SELECT $name, {shared}, pg_catalog.concat($owner, ','), $label, greatest({micros}, m.watermark + 1, $floor), 1, {now} + $lease, false,
    m.store, '{locks}'::regclass
FROM {marker} AS m WHERE {granting}
ON CONFLICT (name) DO UPDATE SET
    token = CASE WHEN {open} THEN greatest(l.token, $floor)
        -- guard: join-above
        ELSE greatest({micros}, l.token + 1, $floor)
    END,
    expires = greatest({now} + $lease, CASE WHEN {open} THEN
        -- guard: join-expires
        l.expires
    END),
    readers = pg_catalog.concat(CASE WHEN {open} THEN
        -- guard: join-others
        l.readers
    END, $owner, ','),
    owner = {shared}, label = $label, version = l.version + 1, kept = false, store = excluded.store, itself = excluded.itself
WHERE (l.owner IS NULL OR l.expires <= {now} OR {open}) AND
    -- guard: join-barging
    l.waiters IS NULL AND
    {not_abandoned}
RETURNING token / {young}

-- name: part(name, owner)
-- Removes the reader $owner from those who share the lock. The last reader then holds the lock alone, and must release it.
-- Answers whether others are left.
UPDATE {locks} AS l SET
    owner = CASE WHEN pg_catalog.length(l.readers) = {reader} THEN $owner ELSE l.owner END,
    readers = nullif(pg_catalog.replace(l.readers, pg_catalog.concat($owner, ','), ''), '')
WHERE name = $name AND {is_reader} AND l.expires > {now}
RETURNING l.owner = {shared}

-- name: renew_readers(names, owners, leases)
-- Renews a batch of readers, of which several may share a lock. Otherwise as `renew`, with the same answer.
WITH ours AS (
    SELECT l.name, g.owner, least((SELECT s.longest_lease FROM {settings} AS s), g.lease) AS lease
    FROM unnest($names::text[], $owners::text[], $leases::interval[]) AS g (name, owner, lease)
    JOIN {locks} AS l ON l.name = g.name AND l.owner = {shared}
    WHERE true
    -- guard: renew-reader
    AND pg_catalog.strpos(l.readers, g.owner) > 0
    -- guard: renew-readers-expired
    AND l.expires > {now}
    FOR UPDATE OF l SKIP LOCKED
),
renewed AS (
    UPDATE {locks} AS l SET expires = greatest(l.expires, {now} + m.lease)
    FROM (SELECT o.name, pg_catalog.max(o.lease) AS lease FROM ours AS o GROUP BY o.name) AS m
    WHERE l.name = m.name
    RETURNING l.name
)
SELECT o.owner, (pg_catalog.date_part('epoch', o.lease) * 1000000::double precision)::bigint
FROM ours AS o JOIN renewed AS r ON r.name = o.name

-- part: open
-- Whether $owner may become one of the readers that share the row.
(l.expires > {now} AND
-- guard: join-readers
l.owner = {shared} AND
pg_catalog.strpos(l.readers, $owner) = 0
-- guard: join-most
AND pg_catalog.length(l.readers) < {most}
)

-- part: is_reader
-- Whether $owner is one of these readers.
(l.owner = {shared} AND pg_catalog.strpos(l.readers, $owner) > 0)

-- part: reader_next
-- Whether readers share the row, and the first entry is another reader's.
coalesce(l.owner = {shared} AND pg_catalog.substr(l.waiters[1], 65, 1) = '*', false)
