-- Readers share a row. The clocks and arguments are those of acquire.sql and renew.sql.

-- name: join(name, owner, label, lease, now, epoch, wall, floor)
-- Makes $owner a reader. The name is free, and is taken as by `insert`, or readers share it. An owner that is already a reader
-- renews instead.
-- All readers have one token. The row's lease is the longest of theirs, so it is never shortened. By a clock that is not
-- the row's, it starts anew, for at least the whole lease that the row was given last.
INSERT INTO {locks} AS l (name, owner, readers, label, token, version, lease, expires, epoch, kept)
SELECT $name, {shared}, $owner || ',', $label, max($wall, s.watermark + 1, $floor), 1, $lease, $now + $lease, $epoch, 0
FROM {settings} AS s
WHERE true
    -- guard: join-abandoned
    AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = $owner)
    -- guard: join-barging
    AND NOT {behind}
ON CONFLICT (name) DO UPDATE SET
    token = CASE WHEN {is_shared} THEN max(l.token, $floor)
        -- guard: join-above
        ELSE max($wall, l.token + 1, $floor)
    END,
    expires = CASE
        -- guard: join-expires
        WHEN {is_shared} THEN max(CASE WHEN l.epoch = $epoch THEN l.expires ELSE $now + l.lease END, $now + $lease)
        ELSE $now + $lease
    END,
    lease = CASE
        WHEN {is_shared} THEN max(CASE WHEN l.epoch = $epoch THEN l.expires - $now ELSE l.lease END, $lease)
        ELSE $lease
    END,
    readers =
        -- guard: join-others
        CASE WHEN {is_shared} THEN l.readers ELSE '' END ||
        $owner || ',',
    owner = {shared}, label = $label, version = l.version + 1, epoch = $epoch, kept = 0
WHERE l.owner IS NULL OR {over} OR (
    instr(l.readers, $owner) = 0
    -- guard: join-most
    AND length(l.readers) < {most}
)
RETURNING token

-- name: part(name, owner, now, epoch)
-- Removes the reader $owner from those who share the lock. The last reader then holds it alone, and must release it.
UPDATE {locks} SET
    owner = CASE WHEN readers = $owner || ',' THEN $owner ELSE owner END,
    readers = nullif(replace(readers, $owner || ',', ''), ''),
    version = version + 1
WHERE name = $name AND instr(readers, $owner) AND (epoch <> $epoch OR expires > $now)
RETURNING owner

-- name: renew_readers(now, epoch, grants)
-- Renews a batch of readers, of which several may share a lock. Otherwise as `renew`, with the same answer.
UPDATE {locks} AS l SET
    lease = CASE WHEN l.epoch = $epoch THEN max(l.expires - $now, g.lease) ELSE max(l.lease, g.lease) END,
    epoch = $epoch, version = version + 1,
    expires = CASE WHEN l.epoch = $epoch THEN max(l.expires, $now + g.lease) ELSE $now + max(l.lease, g.lease) END
FROM (
    SELECT r.name, min(s.longest_lease * 1000000, max(value ->> 2)) AS lease
    FROM json_each($grants), {settings} AS s, {locks} AS r
    WHERE r.name = value ->> 0
        -- guard: renew-reader
        AND instr(r.readers, value ->> 1)
    GROUP BY r.name
) AS g
WHERE l.name = g.name
-- guard: renew-readers-expired
AND (l.epoch <> $epoch OR l.expires > $now)
RETURNING (
    SELECT json_group_array(value ->> 1) FROM json_each($grants) WHERE value ->> 0 = name AND instr(readers, value ->> 1)
), (SELECT longest_lease FROM {settings})

-- part: is_shared
-- Whether readers share the row `l`.
(l.readers IS NOT NULL AND NOT {over})
