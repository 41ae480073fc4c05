-- What leasehold sends, with the default names of the tables.

-- abandon(owner, now, epoch, day)
INSERT INTO "leasehold_abandoned" (owner, at, epoch, day) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING;

-- admit(resource, token)
INSERT INTO "leasehold_fence" (resource, token) VALUES (?1, ?2)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token
WHERE excluded.token >= token
RETURNING token;

-- admitted(resource)
SELECT token FROM "leasehold_fence" WHERE resource = ?1;

-- are_made()
SELECT 1 FROM "leasehold_settings" WHERE EXISTS (SELECT 1 FROM "leasehold_locks") IS NOT NULL
    AND EXISTS (SELECT 1 FROM "leasehold_seen") IS NOT NULL
    AND EXISTS (SELECT 1 FROM "leasehold_abandoned") IS NOT NULL
    AND EXISTS (SELECT 1 FROM "leasehold_queue") IS NOT NULL
    AND EXISTS (SELECT 1 FROM "leasehold_records") IS NOT NULL;

-- create_row(name, epoch)
INSERT INTO "leasehold_locks" (name, token, version, lease, expires, epoch, kept)
SELECT ?1, s.watermark, 0, 0, 0, ?2, 0 FROM "leasehold_settings" AS s
WHERE true ON CONFLICT DO NOTHING;

-- enter(name, owner, label, floor, bell, now, epoch, wall, shared)
INSERT INTO "leasehold_queue" (name, position, owner, label, floor, bell, heard, epoch, wall, shared)
SELECT ?1, coalesce((SELECT max(position) FROM "leasehold_queue" WHERE name = ?1), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
WHERE true
    AND NOT EXISTS (SELECT 1 FROM "leasehold_abandoned" AS a WHERE a.owner = ?2)
    AND NOT EXISTS (SELECT 1 FROM "leasehold_locks" AS l WHERE l.name = ?1 AND (l.owner = ?2 OR EXISTS (SELECT 1 FROM (SELECT key AS reader, value AS ends FROM json_each(l.readers)
WHERE value > (CASE
WHEN l.epoch <> ?7 THEN l.expires - l.lease
ELSE ?6 END)
) WHERE reader = ?2)) AND NOT ((
l.epoch = ?7 AND
l.expires <= ?6) OR (l.epoch <> ?7 AND EXISTS (
SELECT 1 FROM "leasehold_seen" AS s WHERE s.name = l.name AND s.epoch = ?7 AND s.token = l.token
AND s.version = l.version
AND s.until <= ?6
))))
ON CONFLICT (name, owner) DO UPDATE SET
    bell = excluded.bell, heard = excluded.heard, epoch = excluded.epoch, wall = excluded.wall;

-- first(name, now, epoch, wall)
SELECT owner, bell FROM (SELECT * FROM "leasehold_queue" AS q
WHERE q.name = ?1 AND CASE WHEN q.epoch = ?3 THEN
q.heard > ?2 - 4000000000
ELSE abs(q.wall - ?4) < 4000000000 / 1000 END ORDER BY q.position LIMIT 1) AS q
WHERE NOT EXISTS (SELECT 1 FROM "leasehold_locks" AS l WHERE l.name = ?1 AND l.owner IS NOT NULL AND NOT ((
l.epoch = ?3 AND
l.expires <= ?2) OR (l.epoch <> ?3 AND EXISTS (
SELECT 1 FROM "leasehold_seen" AS s WHERE s.name = l.name AND s.epoch = ?3 AND s.token = l.token
AND s.version = l.version
AND s.until <= ?2
)))
        AND NOT (q.shared AND l.readers IS NOT NULL));

-- force(name, now, epoch, wall)
UPDATE "leasehold_locks" AS l SET owner = NULL, readers = NULL, label = NULL,
    token = CASE WHEN token BETWEEN 0 AND 9007199254740990 THEN token
        ELSE ?4 + (SELECT longest_lease * 1000 FROM "leasehold_settings") END,
    version = CASE WHEN version BETWEEN 0 AND 9007199254740990 THEN version + 1 ELSE 1 END
WHERE name = ?1 AND (
    (owner IS NOT NULL AND NOT ((
l.epoch = ?3 AND
l.expires <= ?2) OR (l.epoch <> ?3 AND EXISTS (
SELECT 1 FROM "leasehold_seen" AS s WHERE s.name = l.name AND s.epoch = ?3 AND s.token = l.token
AND s.version = l.version
AND s.until <= ?2
))))
    OR token NOT BETWEEN 0 AND 9007199254740990 OR version NOT BETWEEN 0 AND 9007199254740990
)
RETURNING version;

-- forget(before, epoch, today)
DELETE FROM "leasehold_abandoned" WHERE (epoch = ?2 AND at < ?1) OR (epoch <> ?2 AND day < ?3 - 1);

-- forget_entries(now, epoch, wall)
DELETE FROM "leasehold_queue" AS q WHERE NOT CASE WHEN q.epoch = ?2 THEN
q.heard > ?1 - 4000000000
ELSE abs(q.wall - ?3) < 4000000000 / 1000 END;

-- forget_records(wall)
DELETE FROM "leasehold_records"
WHERE forget_at <= ?1;

-- forget_seen()
DELETE FROM "leasehold_seen" AS s WHERE NOT EXISTS (
    SELECT 1 FROM "leasehold_locks" AS l WHERE l.name = s.name AND l.token = s.token AND l.version = s.version
);

-- highest_token()
SELECT max(
    (SELECT coalesce(max(watermark), 0) FROM "leasehold_settings"), (SELECT coalesce(max(token), 0) FROM "leasehold_locks")
);

-- identity()
SELECT identity FROM "leasehold_settings";

-- insert(name, owner, label, lease, now, epoch, wall, floor)
INSERT INTO "leasehold_locks" AS l (name, owner, label, token, version, lease, expires, epoch, kept)
SELECT ?1, ?2, ?3, max(
    ?7,
    s.watermark + 1,
    ?8), 1, ?4, ?5 + ?4, ?6, 0
FROM "leasehold_settings" AS s
WHERE true
    AND NOT EXISTS (SELECT 1 FROM "leasehold_abandoned" AS a WHERE a.owner = ?2)
    AND NOT (coalesce((SELECT q.owner FROM "leasehold_queue" AS q WHERE q.name = ?1 AND CASE WHEN q.epoch = ?6 THEN
q.heard > ?5 - 4000000000
ELSE abs(q.wall - ?7) < 4000000000 / 1000 END ORDER BY q.position LIMIT 1), ?2) <> ?2)
ON CONFLICT (name) DO UPDATE SET
    token = CASE
        WHEN l.owner = ?2 AND (l.epoch <> ?6 OR l.expires > ?5) THEN l.token
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
    readers = NULL,
    owner = ?2, label = ?3, version = l.version + 1, epoch = ?6, kept = 0
WHERE l.owner IS NULL OR (l.owner = ?2 AND NOT l.kept) OR ((
l.epoch = ?6 AND
l.expires <= ?5) OR (l.epoch <> ?6 AND EXISTS (
SELECT 1 FROM "leasehold_seen" AS s WHERE s.name = l.name AND s.epoch = ?6 AND s.token = l.token
AND s.version = l.version
AND s.until <= ?5
)))
RETURNING token;

-- is_written(name, token, number)
SELECT 1 FROM "leasehold_records" WHERE name = ?1 AND token = ?2 AND number >= ?3;

-- join(name, owner, label, lease, now, epoch, wall, floor)
INSERT INTO "leasehold_locks" AS l (name, owner, readers, label, token, version, lease, expires, epoch, kept)
SELECT ?1, '00000000000000000000000000000000', json_object(?2, ?5 + ?4), ?3, max(?7, s.watermark + 1, ?8), 1, ?4, ?5 + ?4, ?6, 0
FROM "leasehold_settings" AS s
WHERE true
    AND NOT EXISTS (SELECT 1 FROM "leasehold_abandoned" AS a WHERE a.owner = ?2)
    AND NOT (coalesce((SELECT q.owner FROM "leasehold_queue" AS q WHERE q.name = ?1 AND CASE WHEN q.epoch = ?6 THEN
q.heard > ?5 - 4000000000
ELSE abs(q.wall - ?7) < 4000000000 / 1000 END ORDER BY q.position LIMIT 1), ?2) <> ?2)
ON CONFLICT (name) DO UPDATE SET
    token = CASE WHEN (l.readers IS NOT NULL AND NOT ((
l.epoch = ?6 AND
l.expires <= ?5) OR (l.epoch <> ?6 AND EXISTS (
SELECT 1 FROM "leasehold_seen" AS s WHERE s.name = l.name AND s.epoch = ?6 AND s.token = l.token
AND s.version = l.version
AND s.until <= ?5
)))) THEN max(l.token, ?8)
        ELSE max(?7, l.token + 1, ?8)
    END,
    (readers, expires, lease) = (
        SELECT json_group_object(reader, ends),
            max(ends), max(ends) - ?5
        FROM (
            SELECT ?2 AS reader, ?5 + ?4 AS ends
            UNION ALL SELECT reader, ends - (CASE
WHEN l.epoch <> ?6 THEN l.expires - l.lease
ELSE ?5 END) + ?5 FROM (SELECT key AS reader, value AS ends FROM json_each(l.readers)
WHERE value > (CASE
WHEN l.epoch <> ?6 THEN l.expires - l.lease
ELSE ?5 END)
) WHERE (l.readers IS NOT NULL AND NOT ((
l.epoch = ?6 AND
l.expires <= ?5) OR (l.epoch <> ?6 AND EXISTS (
SELECT 1 FROM "leasehold_seen" AS s WHERE s.name = l.name AND s.epoch = ?6 AND s.token = l.token
AND s.version = l.version
AND s.until <= ?5
))))
        )
    ),
    owner = '00000000000000000000000000000000', label = ?3, version = l.version + 1, epoch = ?6, kept = 0
WHERE l.owner IS NULL OR ((
l.epoch = ?6 AND
l.expires <= ?5) OR (l.epoch <> ?6 AND EXISTS (
SELECT 1 FROM "leasehold_seen" AS s WHERE s.name = l.name AND s.epoch = ?6 AND s.token = l.token
AND s.version = l.version
AND s.until <= ?5
))) OR (
    l.readers IS NOT NULL AND NOT EXISTS (SELECT 1 FROM (SELECT key AS reader, value AS ends FROM json_each(l.readers)
WHERE value > (CASE
WHEN l.epoch <> ?6 THEN l.expires - l.lease
ELSE ?5 END)
) WHERE reader = ?2)
    AND CASE WHEN l.readers IS NOT NULL THEN (SELECT count(*) FROM (SELECT key AS reader, value AS ends FROM json_each(l.readers)
WHERE value > (CASE
WHEN l.epoch <> ?6 THEN l.expires - l.lease
ELSE ?5 END)
)) END < 1000
)
RETURNING token;

-- keep(name, owner, now, epoch, lease)
UPDATE "leasehold_locks" SET lease = ?5, expires = ?3 + ?5, epoch = ?4, kept = 1, version = version + 1
WHERE name = ?1 AND owner = ?2 AND (epoch <> ?4 OR expires > ?3)
RETURNING version;

-- leave(name, owner)
DELETE FROM "leasehold_queue" WHERE name = ?1
    AND owner = ?2;

-- list(after, now, epoch, wall, most)
SELECT hex(l.name) AS position, l.name, l.owner, CASE WHEN l.readers IS NOT NULL THEN (SELECT count(*) FROM (SELECT key AS reader, value AS ends FROM json_each(l.readers)
WHERE value > (CASE
WHEN l.epoch <> ?3 THEN l.expires - l.lease
ELSE ?2 END)
)) END AS readers, l.label, l.token, l.version,
    kept, lease, expires, l.epoch, until, 0 AS before,
    (SELECT count(*) FROM "leasehold_queue" AS q WHERE q.name = l.name AND CASE WHEN q.epoch = ?3 THEN
q.heard > ?2 - 4000000000
ELSE abs(q.wall - ?4) < 4000000000 / 1000 END) AS waiting
FROM "leasehold_locks" AS l LEFT JOIN "leasehold_seen" AS s ON s.name = l.name AND s.epoch = ?3 AND s.token = l.token
AND s.version = l.version
WHERE l.name > CAST(unhex(?1) AS TEXT) AND l.owner IS NOT NULL AND NOT ((
l.epoch = ?3 AND
l.expires <= ?2) OR (l.epoch <> ?3 AND EXISTS (
SELECT 1 FROM "leasehold_seen" AS s WHERE s.name = l.name AND s.epoch = ?3 AND s.token = l.token
AND s.version = l.version
AND s.until <= ?2
)))
ORDER BY l.name LIMIT ?5;

-- longest_lease()
SELECT longest_lease FROM "leasehold_settings";

-- note_sighting(name, now, epoch, version)
INSERT INTO "leasehold_seen" (name, epoch, token, version, until)
SELECT name, ?3, token, version, ?2 + lease FROM "leasehold_locks"
WHERE name = ?1 AND owner IS NOT NULL AND epoch <> ?3 AND version = ?4
ON CONFLICT (name, epoch) DO UPDATE SET
    token = excluded.token, version = excluded.version, until = excluded.until
WHERE token <> excluded.token OR version <> excluded.version;

-- part(name, owner, now, epoch)
UPDATE "leasehold_locks" AS l SET
    (owner, readers, expires, lease) = (
        SELECT CASE WHEN count(*) THEN l.owner ELSE ?2 END, CASE WHEN count(*) THEN json_group_object(reader, ends) END,
            coalesce(max(ends), l.expires), coalesce(max(ends), l.expires) - (CASE
WHEN l.epoch <> ?4 THEN l.expires - l.lease
ELSE ?3 END)
        FROM (SELECT key AS reader, value AS ends FROM json_each(l.readers)
WHERE value > (CASE
WHEN l.epoch <> ?4 THEN l.expires - l.lease
ELSE ?3 END)
) WHERE reader <> ?2
    ),
    version = version + 1
WHERE name = ?1 AND EXISTS (SELECT 1 FROM (SELECT key AS reader, value AS ends FROM json_each(l.readers)
WHERE value > (CASE
WHEN l.epoch <> ?4 THEN l.expires - l.lease
ELSE ?3 END)
) WHERE reader = ?2)
RETURNING owner;

-- raise(name, owner, now, epoch, token)
UPDATE "leasehold_locks" AS l SET token = max(token, ?5), version = version + 1
WHERE name = ?1 AND (owner = ?2 OR EXISTS (SELECT 1 FROM (SELECT key AS reader, value AS ends FROM json_each(l.readers)
WHERE value > (CASE
WHEN l.epoch <> ?4 THEN l.expires - l.lease
ELSE ?3 END)
) WHERE reader = ?2)) AND (epoch <> ?4 OR expires > ?3)
RETURNING version;

-- read_record(name)
SELECT token, value, written FROM "leasehold_records" WHERE name = ?1
    AND NOT EXISTS (SELECT expires FROM "leasehold_locks" WHERE false);

-- read_row(name, owner, now, epoch, wall)
SELECT l.name, CASE WHEN EXISTS (SELECT 1 FROM (SELECT key AS reader, value AS ends FROM json_each(l.readers)
WHERE value > (CASE
WHEN l.epoch <> ?4 THEN l.expires - l.lease
ELSE ?3 END)
) WHERE reader = ?2) THEN ?2 ELSE l.owner END AS owner, CASE WHEN l.readers IS NOT NULL THEN (SELECT count(*) FROM (SELECT key AS reader, value AS ends FROM json_each(l.readers)
WHERE value > (CASE
WHEN l.epoch <> ?4 THEN l.expires - l.lease
ELSE ?3 END)
)) END AS readers, l.label, l.token, l.version, kept, lease, expires, l.epoch, until,
    CASE WHEN ?2 IS NULL THEN
        (SELECT count(*) FROM "leasehold_queue" AS q WHERE q.name = l.name AND CASE WHEN q.epoch = ?4 THEN
q.heard > ?3 - 4000000000
ELSE abs(q.wall - ?5) < 4000000000 / 1000 END)
    END AS waiting,
    (SELECT count(*) FROM (
        SELECT 1 FROM "leasehold_queue" AS q WHERE q.name = ?1 AND q.position < coalesce(
            (SELECT m.position FROM "leasehold_queue" AS m WHERE m.name = ?1 AND m.owner = ?2), 9223372036854775807
        ) AND CASE WHEN q.epoch = ?4 THEN
q.heard > ?3 - 4000000000
ELSE abs(q.wall - ?5) < 4000000000 / 1000 END
        LIMIT 8
    )) AS before
FROM "leasehold_locks" AS l LEFT JOIN "leasehold_seen" AS s ON s.name = l.name AND s.epoch = ?4 AND s.token = l.token
AND s.version = l.version
WHERE l.name = ?1;

-- release(name, owner, now, epoch, wall, next, next_label, next_lease, next_floor)
UPDATE "leasehold_locks" AS l SET
    owner = g.owner, readers = g.readers, label = g.label, bell = g.bell, version = version + 1, kept = 0,
    token = CASE WHEN g.owner IS NULL THEN l.token
        ELSE max(?5, l.token + 1, g.floor + 1)
    END,
    lease = coalesce(g.lease, l.lease),
    expires = coalesce(?3 + g.lease, l.expires),
    epoch = CASE WHEN g.owner IS NULL THEN l.epoch ELSE ?4 END
FROM (
    SELECT * FROM (
        SELECT q.position, CASE WHEN q.shared THEN '00000000000000000000000000000000' ELSE q.owner END AS owner,
            CASE WHEN q.shared THEN json_object(q.owner, ?3 + 2000000000) END AS readers, q.label, q.floor, q.bell, 2000000000 AS lease
        FROM "leasehold_queue" AS q WHERE q.name = ?1 AND CASE WHEN q.epoch = ?4 THEN
q.heard > ?3 - 4000000000
ELSE abs(q.wall - ?5) < 4000000000 / 1000 END
        ORDER BY
        q.position
        LIMIT 1
    )
    UNION ALL
    SELECT 9223372036854775807, ?6, NULL, ?7, ?9, NULL, ?8
    WHERE true
    AND NOT EXISTS (SELECT 1 FROM "leasehold_abandoned" AS a WHERE a.owner = ?6)
    ORDER BY 1 LIMIT 1
) AS g
WHERE l.name = ?1
    AND l.owner = ?2
    AND (l.epoch <> ?4 OR l.expires > ?3)
RETURNING version, coalesce(substr(readers, 3, 32), owner), token, bell;

-- renew(now, epoch, grants)
UPDATE "leasehold_locks" AS l SET
    lease = CASE WHEN l.epoch = ?2 THEN max(l.expires - ?1, g.lease) ELSE g.lease END,
    epoch = ?2, version = version + 1,
    expires = CASE WHEN l.epoch = ?2 THEN max(l.expires, ?1 + g.lease) ELSE ?1 + g.lease END
FROM (
    SELECT value ->> 0 AS name, value ->> 1 AS owner, min(
        s.longest_lease * 1000000,
        value ->> 2) AS lease
    FROM json_each(?3), "leasehold_settings" AS s
) AS g
WHERE l.name = g.name AND l.owner = g.owner AND NOT l.kept
AND (l.epoch <> ?2 OR l.expires > ?1)
RETURNING owner, (SELECT longest_lease FROM "leasehold_settings");

-- renew_readers(now, epoch, grants)
UPDATE "leasehold_locks" AS l SET
    (readers, expires, lease) = (
        SELECT json_group_object(reader, ends), max(ends), max(ends) - ?1
        FROM (
            SELECT reader, max(
                ends - (CASE
WHEN l.epoch <> ?2 THEN l.expires - l.lease
ELSE ?1 END) + ?1,
                coalesce(?1 + json_extract(g.leases, '$.' || reader), 0)) AS ends
            FROM (SELECT key AS reader, value AS ends FROM json_each(l.readers)
WHERE value > (CASE
WHEN l.epoch <> ?2 THEN l.expires - l.lease
ELSE ?1 END)
)
        )
    ),
    epoch = ?2, version = version + 1
FROM (
    SELECT value ->> 0 AS name, json_group_object(value ->> 1, min(s.longest_lease * 1000000, value ->> 2)) AS leases
    FROM json_each(?3), "leasehold_settings" AS s
    GROUP BY value ->> 0
) AS g
WHERE l.name = g.name
    AND EXISTS (SELECT 1 FROM (SELECT key AS reader, value AS ends FROM json_each(l.readers)
WHERE value > (CASE
WHEN l.epoch <> ?2 THEN l.expires - l.lease
ELSE ?1 END)
) WHERE json_extract(g.leases, '$.' || reader) IS NOT NULL)
RETURNING (
    SELECT json_group_array(value ->> 1) FROM json_each(?3) WHERE value ->> 0 = name
    AND json_extract(readers, '$.' || (value ->> 1)) IS NOT NULL
), (SELECT longest_lease FROM "leasehold_settings");

-- reown(name, former, owner, label, lease, now, epoch, token)
UPDATE "leasehold_locks" AS l SET
    lease = CASE WHEN l.owner = ?3 AND l.epoch = ?7 THEN max(l.expires - ?6, ?5) ELSE ?5 END,
    expires = CASE WHEN l.owner = ?3 AND l.epoch = ?7 THEN max(l.expires, ?6 + ?5) ELSE ?6 + ?5 END,
    owner = ?3, label = ?4, epoch = ?7, version = version + 1
WHERE name = ?1
    AND (l.owner = ?2 OR l.owner = ?3)
    AND l.token = ?8
    AND NOT l.kept
    AND (l.epoch <> ?7 OR l.expires > ?6)
    AND NOT EXISTS (SELECT 1 FROM "leasehold_abandoned" AS a WHERE a.owner = ?3)
RETURNING version;

-- set_longest_lease(longest)
UPDATE "leasehold_settings" SET longest_lease = ?1;

-- sweep(now, epoch)
DELETE FROM "leasehold_locks" AS l
WHERE (owner IS NULL OR ((
l.epoch = ?2 AND
l.expires <= ?1) OR (l.epoch <> ?2 AND EXISTS (
SELECT 1 FROM "leasehold_seen" AS s WHERE s.name = l.name AND s.epoch = ?2 AND s.token = l.token
AND s.version = l.version
AND s.until <= ?1
))))
    AND token <= (SELECT watermark FROM "leasehold_settings")
    AND NOT EXISTS (SELECT 1 FROM "leasehold_queue" AS q WHERE q.name = l.name);

-- sweep_watermark(now, epoch)
UPDATE "leasehold_settings"
SET watermark = max(watermark, (
    SELECT coalesce(max(token), 0) FROM "leasehold_locks" AS l WHERE owner IS NULL OR ((
l.epoch = ?2 AND
l.expires <= ?1) OR (l.epoch <> ?2 AND EXISTS (
SELECT 1 FROM "leasehold_seen" AS s WHERE s.name = l.name AND s.epoch = ?2 AND s.token = l.token
AND s.version = l.version
AND s.until <= ?1
)))
));

-- synchronous()
PRAGMA synchronous;

-- take(name, owner, label, lease, now, epoch, wall, floor, version)
UPDATE "leasehold_locks" AS l SET
    token = max(?7, token + 1, ?8),
    readers = NULL,
    owner = ?2, label = ?3, version = version + 1, lease = ?4, expires = ?5 + ?4, epoch = ?6, kept = 0
WHERE name = ?1 AND version = ?9 AND (owner IS NULL OR ((
l.epoch = ?6 AND
l.expires <= ?5) OR (l.epoch <> ?6 AND EXISTS (
SELECT 1 FROM "leasehold_seen" AS s WHERE s.name = l.name AND s.epoch = ?6 AND s.token = l.token
AND s.version = l.version
AND s.until <= ?5
))))
    AND NOT EXISTS (SELECT 1 FROM "leasehold_abandoned" AS a WHERE a.owner = ?2)
    AND NOT (coalesce((SELECT q.owner FROM "leasehold_queue" AS q WHERE q.name = ?1 AND CASE WHEN q.epoch = ?6 THEN
q.heard > ?5 - 4000000000
ELSE abs(q.wall - ?7) < 4000000000 / 1000 END ORDER BY q.position LIMIT 1), ?2) <> ?2)
RETURNING token;

-- version()
SELECT (SELECT version FROM "leasehold_settings" WHERE id = 1);

-- withdraw(name, owner, now, epoch)
UPDATE "leasehold_locks" SET owner = NULL, label = NULL, version = version + 1
WHERE name = ?1
AND NOT kept
AND owner = ?2 AND (epoch <> ?4 OR expires > ?3)
RETURNING version;

-- write_record(name, owner, now, epoch, wall, token, number, value, forget_at)
INSERT INTO "leasehold_records" AS r (name, token, number, value, written, forget_at)
SELECT l.name, ?6, ?7, ?8, ?5, ?9 FROM "leasehold_locks" AS l
WHERE l.name = ?1
    AND l.owner = ?2
    AND NOT l.kept
    AND (l.epoch <> ?4 OR l.expires > ?3)
ON CONFLICT (name) DO UPDATE SET
    value = CASE WHEN (r.token = excluded.token
AND r.number >= excluded.number
) THEN r.value ELSE excluded.value END,
    written = CASE WHEN (r.token = excluded.token
AND r.number >= excluded.number
) THEN r.written ELSE excluded.written END,
    forget_at = CASE WHEN (r.token = excluded.token
AND r.number >= excluded.number
) THEN r.forget_at ELSE excluded.forget_at END,
    number = CASE WHEN (r.token = excluded.token
AND r.number >= excluded.number
) THEN r.number ELSE excluded.number END,
    token = excluded.token
RETURNING 1;
