-- What leasehold sends, with the default names of the tables.

-- abandon(name, owner)
WITH gone AS (
    INSERT INTO "leasehold_locks" AS l (name, token, version, expires, kept, buried, buried_at)
    SELECT $1, coalesce(pg_catalog.max(m.watermark), 0), 0, pg_catalog.clock_timestamp(), false, ARRAY[$2], ARRAY[pg_catalog.clock_timestamp()]
    FROM "leasehold_marker" AS m
    ON CONFLICT (name) DO UPDATE SET
        owner = CASE WHEN l.owner = $2
            AND NOT l.kept
            THEN NULL ELSE l.owner END,
        turn = CASE WHEN pg_catalog.left(l.waiters[1], 32) = $2 THEN NULL ELSE l.turn END,
        (waiters, alive) = (
    SELECT
        CASE WHEN l.far IS NULL THEN q.entries ELSE coalesce(q.entries, ARRAY[]::text[]) END,
        CASE WHEN l.far IS NULL THEN q.alive ELSE coalesce(q.alive, ARRAY[]::timestamptz[]) END
    FROM (
        SELECT pg_catalog.array_agg(p.entry ORDER BY p.at) AS entries, pg_catalog.array_agg(p.alive ORDER BY p.at) AS alive
        FROM unnest(l.waiters, l.alive) WITH ORDINALITY AS p (entry, alive, at)
        WHERE pg_catalog.left(p.entry, 32) <> $2
    ) AS q
),
        (buried, buried_at) = (
            SELECT pg_catalog.array_agg(b.owner), pg_catalog.array_agg(b.at)
            FROM (
                SELECT $2 AS owner, pg_catalog.clock_timestamp() AS at
                UNION ALL
                (
                    SELECT o.owner, o.at FROM unnest(l.buried, l.buried_at) AS o (owner, at)
                    WHERE o.owner <> $2 AND o.at > pg_catalog.clock_timestamp() - interval '1 hour'
                    ORDER BY o.at DESC LIMIT 999
                )
            ) AS b
        )
    RETURNING (far IS NOT NULL AND coalesce(pg_catalog.cardinality(waiters), 0) < 16 / 2) AS short, CASE
        WHEN (owner IS NULL OR expires <= pg_catalog.clock_timestamp() OR coalesce(l.owner = '00000000000000000000000000000000' AND pg_catalog.substr(l.waiters[1], 65, 1) = '*', false)) AND waiters[1] IS NOT NULL THEN pg_catalog.pg_notify(
'leasehold_' || pg_catalog.substr(waiters[1], 33, 32)
, pg_catalog.left(waiters[1], 32))
    END AS notified, 1 / (pg_catalog.clock_timestamp() BETWEEN pg_catalog.now() AND pg_catalog.now() + interval '30 seconds')::integer AS young
),
forgotten AS (
    DELETE FROM "leasehold_queue" WHERE name = $1 AND owner = $2
)
SELECT * FROM gone;

-- admit(resource, token)
INSERT INTO "leasehold_fence" AS f (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET
    token = greatest(f.token, $2)
RETURNING
    CASE WHEN pg_catalog.pg_relation_is_publishable(tableoid::pg_catalog.regclass) THEN token END;

-- append(name, owner, entry, head_life)
UPDATE "leasehold_locks" AS l SET
    waiters = pg_catalog.array_append(l.waiters, $3::text),
    alive = pg_catalog.array_append(l.alive, pg_catalog.clock_timestamp() + $4::interval),
    turn = NULL
WHERE name = $1
    AND l.expires > pg_catalog.clock_timestamp()
    AND l.owner <> $2
    AND l.far IS NULL
    AND coalesce(pg_catalog.cardinality(l.waiters) < 16, true)
    AND NOT coalesce($3 = ANY (l.waiters), false)
    AND coalesce(pg_catalog.clock_timestamp() < ALL (l.alive), true)
    AND true
AND (l.buried IS NULL OR $2 <> ALL (l.buried))
RETURNING name, owner, label, token, version, kept, greatest((pg_catalog.date_part('epoch', greatest(least(expires, pg_catalog.clock_timestamp() + interval '1000 years'), pg_catalog.clock_timestamp()) - pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, 0) AS remaining,
greatest((pg_catalog.date_part('epoch', greatest(least(turn, pg_catalog.clock_timestamp() + interval '1000 years'), pg_catalog.clock_timestamp()) - pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, 0) AS turn, pg_catalog.cardinality(waiters)::bigint + (far IS NOT NULL)::integer AS waiting,
coalesce(waiters[1], CASE WHEN waiters IS NOT NULL THEN '' END) AS first, pg_catalog.cardinality(waiters) AS position, false AS granted, false AS behind,
    CASE WHEN owner = '00000000000000000000000000000000' THEN 1::bigint END AS readers;

-- attempt(name, owner, label, lease, floor, entry, turn, head_life, tail_life)
WITH asked AS (
    UPDATE "leasehold_locks" AS l SET (
        owner, label, token, version, expires, kept, store, itself, waiters, alive, far, turn
    ) = (
        SELECT
            CASE WHEN a.takes THEN $2 ELSE l.owner END,
            CASE WHEN a.takes THEN $3 ELSE l.label END,
            CASE WHEN a.takes THEN greatest((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, l.token + 1, $5) ELSE l.token END,
            CASE WHEN a.takes THEN l.version + 1 ELSE l.version END,
            CASE
                WHEN a.takes THEN pg_catalog.clock_timestamp() + $4
                WHEN a.holds AND NOT l.kept THEN greatest(l.expires, pg_catalog.clock_timestamp() + $4)
                ELSE l.expires
            END,
            l.kept AND NOT a.takes,
            CASE WHEN a.takes THEN coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false)) ELSE l.store END,
            CASE WHEN a.takes THEN pg_catalog.pg_relation_filenode('"leasehold_locks"'::regclass) ELSE l.itself END,
            CASE
    WHEN a.takes THEN CASE WHEN pg_catalog.cardinality(a.entries) > 1 OR a.far IS NOT NULL THEN a.entries[2:] END
    WHEN a.far IS NOT NULL THEN coalesce(a.entries, ARRAY[]::text[])
    ELSE a.entries
END,
CASE
    WHEN a.takes THEN CASE WHEN pg_catalog.cardinality(a.entries) > 1 OR a.far IS NOT NULL THEN a.alive[2:] END
    WHEN a.far IS NOT NULL THEN coalesce(a.alive, ARRAY[]::timestamptz[])
    ELSE a.alive
END,
a.far,
CASE
    WHEN a.takes OR NOT a.free THEN NULL
    WHEN l.turn > a.now AND l.turn <= a.now + $7::interval AND a.entries[1] = l.waiters[1]
        THEN l.turn
    ELSE a.now + $7::interval
END
        FROM (
            SELECT j.now, j.free, j.holds, q.entries, q.alive,
                CASE WHEN j.joins AND j.behind THEN greatest((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, l.far + 1, l.moved + 1) ELSE l.far END AS far,
j.grants
AND q.entries[1] IS NOT DISTINCT FROM $6
AND ($6 IS NOT NULL OR l.far IS NULL)
AS takes
            FROM (
                SELECT r.*,
l.far IS NOT NULL OR coalesce(pg_catalog.cardinality(l.waiters) >= 16, false) AS behind,
$6 IS NOT NULL AND NOT r.holds AND NOT coalesce($6 = ANY (l.waiters), false)
AND (r.grants OR NOT r.free OR l.waiters IS NOT NULL)
AND NOT (l.far IS NOT NULL AND EXISTS (SELECT 1 FROM "leasehold_queue" AS b WHERE b.name = $1 AND b.owner = $2 AND b.entered > coalesce(l.moved, 0::bigint)))
AS joins
                FROM (
                    SELECT t.now, f.free, NOT f.free AND l.owner = $2 AS holds,
                        f.free AND
                        EXISTS (SELECT 1 FROM "leasehold_marker" AS m WHERE true
AND m.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false))
AND m.itself = pg_catalog.pg_relation_filenode('"leasehold_marker"'::regclass)
AND m.grants_from <= pg_catalog.clock_timestamp()
AND true
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_locks"'::regclass)
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_marker"'::regclass)
AND pg_catalog.pg_relation_is_publishable('"leasehold_settings"'::regclass)) AS grants
                    FROM (SELECT pg_catalog.clock_timestamp() AS now) AS t
                    CROSS JOIN LATERAL (SELECT l.owner IS NULL OR l.expires <= t.now AS free) AS f
                ) AS r
            ) AS j
            CROSS JOIN LATERAL (
    SELECT pg_catalog.array_agg(p.entry ORDER BY p.at) AS entries, pg_catalog.array_agg(p.alive ORDER BY p.at) AS alive
    FROM (
        SELECT w.entry, w.alive, w.at
        FROM unnest(l.waiters, l.alive) WITH ORDINALITY AS w (entry, alive, at)
        WHERE w.entry = $6 OR (
            (
                w.alive > j.now
                OR EXISTS (SELECT 1 FROM "leasehold_queue" AS b WHERE b.name = $1 AND b.owner = pg_catalog.left(w.entry, 32) AND b.alive > j.now)
            ) AND NOT (
                w.at = 1 AND j.free
                AND coalesce(l.turn <= j.now OR l.turn > j.now + $7::interval, false)
            )
        )
        UNION ALL
        SELECT $6, j.now + $8::interval, 2147483647 WHERE j.joins AND NOT j.behind
    ) AS p
) AS q
        ) AS a
    )
    WHERE name = $1 AND true
AND (l.buried IS NULL OR $2 <> ALL (l.buried))
    RETURNING name, owner, label, token, version, kept, greatest((pg_catalog.date_part('epoch', greatest(least(expires, pg_catalog.clock_timestamp() + interval '1000 years'), pg_catalog.clock_timestamp()) - pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, 0) AS remaining,
greatest((pg_catalog.date_part('epoch', greatest(least(turn, pg_catalog.clock_timestamp() + interval '1000 years'), pg_catalog.clock_timestamp()) - pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, 0) AS turn, pg_catalog.cardinality(waiters)::bigint + (far IS NOT NULL)::integer AS waiting,
coalesce(waiters[1], CASE WHEN waiters IS NOT NULL THEN '' END) AS first, CASE WHEN owner = '00000000000000000000000000000000' THEN (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) END AS readers, pg_catalog.array_position(waiters, $6) AS position, far, (far IS NOT NULL AND coalesce(pg_catalog.cardinality(waiters), 0) < 16 / 2) AS short,
        coalesce(l.owner = $2 AND expires > pg_catalog.clock_timestamp() AND NOT kept, false) AS granted,
        $6 IS NOT NULL AND far IS NOT NULL AND NOT coalesce($6 = ANY (waiters), false)
            AND NOT coalesce(l.owner = $2 AND expires > pg_catalog.clock_timestamp(), false) AS behind,
        (l.far IS NOT NULL AND EXISTS (SELECT 1 FROM "leasehold_queue" AS b WHERE b.name = $1 AND b.owner = $2 AND b.entered > coalesce(l.moved, 0::bigint))) AS was_behind,
        CASE
            WHEN (owner IS NULL OR expires <= pg_catalog.clock_timestamp()) AND waiters[1] <> coalesce($6, '') THEN pg_catalog.pg_notify(
'leasehold_' || pg_catalog.substr(waiters[1], 33, 32)
, pg_catalog.left(waiters[1], 32))
        END AS notified
),
enters AS (
    INSERT INTO "leasehold_queue" (name, owner, entered, entry, alive)
    SELECT $1, $2, a.far, $6, pg_catalog.clock_timestamp() + $9 FROM asked AS a WHERE a.behind AND NOT a.was_behind
    ON CONFLICT (name, owner) DO UPDATE SET entered = excluded.entered, entry = excluded.entry, alive = excluded.alive
)
SELECT * FROM asked;

-- attempt_reader(name, owner, label, lease, floor, entry, turn, head_life, tail_life)
WITH asked AS (
    UPDATE "leasehold_locks" AS l SET (
        owner, label, token, version, expires, kept, store, itself, waiters, alive, far, turn, readers
    ) = (
        SELECT
            CASE WHEN a.takes THEN '00000000000000000000000000000000' ELSE l.owner END,
            CASE WHEN a.takes THEN $3 ELSE l.label END,
            CASE
                WHEN a.takes AND NOT a.free THEN greatest(l.token, $5)
                WHEN a.takes THEN greatest((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, l.token + 1, $5) ELSE l.token END,
            CASE WHEN a.takes THEN l.version + 1 ELSE l.version END,
            CASE
                WHEN a.takes AND NOT a.free THEN greatest(l.expires, pg_catalog.clock_timestamp() + $4)
                WHEN a.takes THEN pg_catalog.clock_timestamp() + $4
                WHEN a.holds AND NOT l.kept THEN greatest(l.expires, pg_catalog.clock_timestamp() + $4)
                ELSE l.expires
            END,
            l.kept AND NOT a.takes,
            CASE WHEN a.takes THEN coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false)) ELSE l.store END,
            CASE WHEN a.takes THEN pg_catalog.pg_relation_filenode('"leasehold_locks"'::regclass) ELSE l.itself END,
            CASE
    WHEN a.takes THEN CASE WHEN pg_catalog.cardinality(a.entries) > 1 OR a.far IS NOT NULL THEN a.entries[2:] END
    WHEN a.far IS NOT NULL THEN coalesce(a.entries, ARRAY[]::text[])
    ELSE a.entries
END,
CASE
    WHEN a.takes THEN CASE WHEN pg_catalog.cardinality(a.entries) > 1 OR a.far IS NOT NULL THEN a.alive[2:] END
    WHEN a.far IS NOT NULL THEN coalesce(a.alive, ARRAY[]::timestamptz[])
    ELSE a.alive
END,
a.far,
CASE
    WHEN a.takes OR NOT a.free THEN NULL
    WHEN l.turn > a.now AND l.turn <= a.now + $7::interval AND a.entries[1] = l.waiters[1]
        THEN l.turn
    ELSE a.now + $7::interval
END,
            CASE
                WHEN a.takes AND a.free THEN pg_catalog.jsonb_build_object($2::text, (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() + $4::interval) * 1000000::double precision)::bigint)
                WHEN a.takes THEN coalesce((SELECT pg_catalog.jsonb_object_agg(r.key, r.value) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint), pg_catalog.jsonb_build_object()) || pg_catalog.jsonb_build_object($2::text, (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() + $4::interval) * 1000000::double precision)::bigint)
                WHEN a.holds THEN l.readers || pg_catalog.jsonb_build_object(
                    $2::text, greatest((l.readers ->> $2::text)::bigint, (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() + $4::interval) * 1000000::double precision)::bigint)
                )
                ELSE l.readers
            END
        FROM (
            SELECT j.now, j.free, j.holds, q.entries, q.alive,
                CASE WHEN j.joins AND j.behind THEN greatest((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, l.far + 1, l.moved + 1) ELSE l.far END AS far,
j.grants
AND q.entries[1] IS NOT DISTINCT FROM $6
AND ($6 IS NOT NULL OR l.far IS NULL)
AS takes
            FROM (
                SELECT r.*,
l.far IS NOT NULL OR coalesce(pg_catalog.cardinality(l.waiters) >= 16, false) AS behind,
$6 IS NOT NULL AND NOT r.holds AND NOT coalesce($6 = ANY (l.waiters), false)
AND (r.grants OR NOT r.free OR l.waiters IS NOT NULL)
AND NOT (l.far IS NOT NULL AND EXISTS (SELECT 1 FROM "leasehold_queue" AS b WHERE b.name = $1 AND b.owner = $2 AND b.entered > coalesce(l.moved, 0::bigint)))
AS joins
                FROM (
                    SELECT t.now, f.free, NOT f.free AND (l.owner = '00000000000000000000000000000000' AND coalesce((l.readers ->> $2::text)::bigint, 0::bigint) > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) AS holds,
                        (f.free OR (l.expires > pg_catalog.clock_timestamp() AND
l.owner = '00000000000000000000000000000000' AND
NOT (l.owner = '00000000000000000000000000000000' AND coalesce((l.readers ->> $2::text)::bigint, 0::bigint) > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint)
AND (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) < 1000
)) AND
                        EXISTS (SELECT 1 FROM "leasehold_marker" AS m WHERE true
AND m.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false))
AND m.itself = pg_catalog.pg_relation_filenode('"leasehold_marker"'::regclass)
AND m.grants_from <= pg_catalog.clock_timestamp()
AND true
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_locks"'::regclass)
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_marker"'::regclass)
AND pg_catalog.pg_relation_is_publishable('"leasehold_settings"'::regclass)) AS grants
                    FROM (SELECT pg_catalog.clock_timestamp() AS now) AS t
                    CROSS JOIN LATERAL (SELECT l.owner IS NULL OR l.expires <= t.now AS free) AS f
                ) AS r
            ) AS j
            CROSS JOIN LATERAL (
    SELECT pg_catalog.array_agg(p.entry ORDER BY p.at) AS entries, pg_catalog.array_agg(p.alive ORDER BY p.at) AS alive
    FROM (
        SELECT w.entry, w.alive, w.at
        FROM unnest(l.waiters, l.alive) WITH ORDINALITY AS w (entry, alive, at)
        WHERE w.entry = $6 OR (
            (
                w.alive > j.now
                OR EXISTS (SELECT 1 FROM "leasehold_queue" AS b WHERE b.name = $1 AND b.owner = pg_catalog.left(w.entry, 32) AND b.alive > j.now)
            ) AND NOT (
                w.at = 1 AND j.free
                AND coalesce(l.turn <= j.now OR l.turn > j.now + $7::interval, false)
            )
        )
        UNION ALL
        SELECT $6, j.now + $8::interval, 2147483647 WHERE j.joins AND NOT j.behind
    ) AS p
) AS q
        ) AS a
    )
    WHERE name = $1 AND true
AND (l.buried IS NULL OR $2 <> ALL (l.buried))
    RETURNING name, owner, label, token, version, kept, greatest((pg_catalog.date_part('epoch', greatest(least(expires, pg_catalog.clock_timestamp() + interval '1000 years'), pg_catalog.clock_timestamp()) - pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, 0) AS remaining,
greatest((pg_catalog.date_part('epoch', greatest(least(turn, pg_catalog.clock_timestamp() + interval '1000 years'), pg_catalog.clock_timestamp()) - pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, 0) AS turn, pg_catalog.cardinality(waiters)::bigint + (far IS NOT NULL)::integer AS waiting,
coalesce(waiters[1], CASE WHEN waiters IS NOT NULL THEN '' END) AS first, CASE WHEN owner = '00000000000000000000000000000000' THEN (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) END AS readers, pg_catalog.array_position(waiters, $6) AS position, far, (far IS NOT NULL AND coalesce(pg_catalog.cardinality(waiters), 0) < 16 / 2) AS short,
        coalesce((l.owner = '00000000000000000000000000000000' AND coalesce((l.readers ->> $2::text)::bigint, 0::bigint) > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) AND expires > pg_catalog.clock_timestamp() AND NOT kept, false) AS granted,
        $6 IS NOT NULL AND far IS NOT NULL AND NOT coalesce($6 = ANY (waiters), false)
            AND NOT coalesce((l.owner = '00000000000000000000000000000000' AND coalesce((l.readers ->> $2::text)::bigint, 0::bigint) > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) AND expires > pg_catalog.clock_timestamp(), false) AS behind,
        (l.far IS NOT NULL AND EXISTS (SELECT 1 FROM "leasehold_queue" AS b WHERE b.name = $1 AND b.owner = $2 AND b.entered > coalesce(l.moved, 0::bigint))) AS was_behind,
        CASE
            WHEN (owner IS NULL OR expires <= pg_catalog.clock_timestamp() OR coalesce(l.owner = '00000000000000000000000000000000' AND pg_catalog.substr(l.waiters[1], 65, 1) = '*', false)) AND waiters[1] <> coalesce($6, '') THEN pg_catalog.pg_notify(
'leasehold_' || pg_catalog.substr(waiters[1], 33, 32)
, pg_catalog.left(waiters[1], 32))
        END AS notified
),
enters AS (
    INSERT INTO "leasehold_queue" (name, owner, entered, entry, alive)
    SELECT $1, $2, a.far, $6, pg_catalog.clock_timestamp() + $9 FROM asked AS a WHERE a.behind AND NOT a.was_behind
    ON CONFLICT (name, owner) DO UPDATE SET entered = excluded.entered, entry = excluded.entry, alive = excluded.alive
)
SELECT * FROM asked;

-- clock()
SELECT (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint;

-- confirm(name, owner, lease)
UPDATE "leasehold_locks" AS l SET expires = greatest(l.expires, pg_catalog.clock_timestamp() + $3::interval)
WHERE name = $1
    AND owner = $2
    AND NOT l.kept
    AND l.expires > pg_catalog.clock_timestamp()
RETURNING token, (waiters IS NOT NULL AND (far IS NOT NULL OR pg_catalog.cardinality(waiters) > 0));

-- create_row(name)
INSERT INTO "leasehold_locks" (name, token, version, expires, kept)
SELECT $1, m.watermark, 0, 'epoch', false FROM "leasehold_marker" AS m
ON CONFLICT DO NOTHING
RETURNING 1 / (pg_catalog.clock_timestamp() BETWEEN pg_catalog.now() AND pg_catalog.now() + interval '30 seconds')::integer;

-- distrust_rows()
WITH trusted AS (
    SELECT name FROM "leasehold_locks" WHERE store IS NOT NULL
        AND EXISTS (SELECT 1 FROM "leasehold_marker" WHERE grants_from > pg_catalog.clock_timestamp())
),
free AS (
    SELECT name FROM "leasehold_locks" WHERE name IN (SELECT name FROM trusted) FOR UPDATE SKIP LOCKED
),
doubted AS (
    UPDATE "leasehold_locks" AS l SET store = NULL FROM free WHERE l.name = free.name
    RETURNING 1
)
SELECT (SELECT pg_catalog.count(*) FROM trusted) > (SELECT pg_catalog.count(*) FROM doubted);

-- exists()
SELECT ARRAY[pg_catalog.to_regclass('"leasehold_settings"') IS NOT NULL, pg_catalog.to_regclass('"leasehold_locks"') IS NOT NULL, pg_catalog.to_regclass('"leasehold_queue"') IS NOT NULL, pg_catalog.to_regclass('"leasehold_marker"') IS NOT NULL, pg_catalog.to_regclass('"leasehold_records"') IS NOT NULL], pg_catalog.current_schemas(true)::pg_catalog.text[], (
WITH RECURSIVE ours AS (
    SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname OPERATOR(pg_catalog.=) current_user
    UNION
    SELECT m.roleid FROM pg_catalog.pg_auth_members AS m JOIN ours AS o ON m.member OPERATOR(pg_catalog.=) o.oid
)
SELECT pg_catalog.format(
    'the table "%s" belongs to the role "%s", which "%s" is not a member of, and which could run code in its name; '
    'remove the table, let that role do this, or grant it', t.relname, r.rolname, current_user
)
FROM pg_catalog.pg_class AS t JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) t.relowner
WHERE t.oid OPERATOR(pg_catalog.=) ANY (ARRAY[pg_catalog.to_regclass('"leasehold_settings"')::pg_catalog.oid, pg_catalog.to_regclass('"leasehold_locks"')::pg_catalog.oid, pg_catalog.to_regclass('"leasehold_queue"')::pg_catalog.oid, pg_catalog.to_regclass('"leasehold_marker"')::pg_catalog.oid, pg_catalog.to_regclass('"leasehold_records"')::pg_catalog.oid])
    AND NOT r.rolsuper AND r.rolname OPERATOR(pg_catalog.<>) 'pg_database_owner'
    AND NOT EXISTS (SELECT 1 FROM ours AS o WHERE o.oid OPERATOR(pg_catalog.=) r.oid)
    AND NOT EXISTS (
        SELECT 1 FROM pg_catalog.pg_database AS d
        WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND d.datdba OPERATOR(pg_catalog.=) r.oid
    )
    AND NOT EXISTS (
        SELECT 1 FROM pg_catalog.pg_namespace AS n
        WHERE n.oid OPERATOR(pg_catalog.=) t.relnamespace AND n.nspowner OPERATOR(pg_catalog.=) r.oid
    )
LIMIT 1
), (
SELECT pg_catalog.format(
    CASE
        WHEN t.relkind OPERATOR(pg_catalog.<>) 'r' THEN
            'the table "%1$s" is partitioned, a view or the like, and must be an ordinary table; remove it, and run `leasehold init`'
        WHEN w.persistence OPERATOR(pg_catalog.=) 'u' THEN
            'the table "%1$s" is not UNLOGGED, so a crash, a promotion or a restore of the server may leave it with old locks '
            'instead of empty, and a lock could have two holders; run ALTER TABLE %2$I.%1$I SET UNLOGGED, after which nothing '
            'may be granted for one longest lease'
        ELSE
            'the table "%1$s" is UNLOGGED, so a crash, a promotion or a restore of the server empties it, and what must '
            'outlive that is lost; run ALTER TABLE %2$I.%1$I SET LOGGED'
    END, t.relname, n.nspname
)
FROM (VALUES (pg_catalog.to_regclass('"leasehold_settings"')::pg_catalog.oid, 'p'::pg_catalog."char"), (pg_catalog.to_regclass('"leasehold_locks"')::pg_catalog.oid, 'u'::pg_catalog."char"), (pg_catalog.to_regclass('"leasehold_marker"')::pg_catalog.oid, 'u'::pg_catalog."char")) AS w (oid, persistence)
JOIN pg_catalog.pg_class AS t ON t.oid OPERATOR(pg_catalog.=) w.oid
JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) t.relnamespace
WHERE t.relkind OPERATOR(pg_catalog.<>) 'r' OR t.relpersistence OPERATOR(pg_catalog.<>) w.persistence
LIMIT 1
);

-- fence_schema_concurrent()
DO $$ BEGIN
    CREATE TABLE IF NOT EXISTS "leasehold_fence" (
    resource text   COLLATE "C" NOT NULL PRIMARY KEY,
    token    bigint NOT NULL
);
EXCEPTION WHEN unique_violation OR duplicate_table OR duplicate_object THEN
    CREATE TABLE IF NOT EXISTS "leasehold_fence" (
    resource text   COLLATE "C" NOT NULL PRIMARY KEY,
    token    bigint NOT NULL
);
END $$;
WITH RECURSIVE ours AS (
    SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname OPERATOR(pg_catalog.=) current_user
    UNION
    SELECT m.roleid FROM pg_catalog.pg_auth_members AS m JOIN ours AS o ON m.member OPERATOR(pg_catalog.=) o.oid
)
SELECT pg_catalog.format(
    'the table "%s" belongs to the role "%s", which "%s" is not a member of, and which could run code in its name; '
    'remove the table, let that role do this, or grant it', t.relname, r.rolname, current_user
)
FROM pg_catalog.pg_class AS t JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) t.relowner
WHERE t.oid OPERATOR(pg_catalog.=) ANY (ARRAY[pg_catalog.to_regclass('"leasehold_settings"')::pg_catalog.oid, pg_catalog.to_regclass('"leasehold_locks"')::pg_catalog.oid, pg_catalog.to_regclass('"leasehold_queue"')::pg_catalog.oid, pg_catalog.to_regclass('"leasehold_marker"')::pg_catalog.oid, pg_catalog.to_regclass('"leasehold_records"')::pg_catalog.oid])
    AND NOT r.rolsuper AND r.rolname OPERATOR(pg_catalog.<>) 'pg_database_owner'
    AND NOT EXISTS (SELECT 1 FROM ours AS o WHERE o.oid OPERATOR(pg_catalog.=) r.oid)
    AND NOT EXISTS (
        SELECT 1 FROM pg_catalog.pg_database AS d
        WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND d.datdba OPERATOR(pg_catalog.=) r.oid
    )
    AND NOT EXISTS (
        SELECT 1 FROM pg_catalog.pg_namespace AS n
        WHERE n.oid OPERATOR(pg_catalog.=) t.relnamespace AND n.nspowner OPERATOR(pg_catalog.=) r.oid
    )
LIMIT 1;

-- force(name)
UPDATE "leasehold_locks" SET owner = NULL,
    token = CASE WHEN token BETWEEN 0 AND 9007199254740990 THEN token ELSE (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint + (
        SELECT (pg_catalog.date_part('epoch', quarantine) * 1000000::double precision)::bigint FROM "leasehold_settings"
    ) END,
    version = CASE WHEN version BETWEEN 0 AND 9007199254740990 THEN version ELSE 0 END
WHERE name = $1 AND (
    (owner IS NOT NULL AND expires > pg_catalog.clock_timestamp())
    OR token NOT BETWEEN 0 AND 9007199254740990 OR version NOT BETWEEN 0 AND 9007199254740990
)
RETURNING version, CASE WHEN waiters[1] IS NOT NULL THEN pg_catalog.pg_notify(
'leasehold_' || pg_catalog.substr(waiters[1], 33, 32)
, pg_catalog.left(waiters[1], 32)) END;

-- forget_records(most)
DELETE FROM "leasehold_records" AS r USING (
    SELECT o.name FROM "leasehold_records" AS o
    WHERE o.forget_at <= pg_catalog.clock_timestamp()
    LIMIT $1::bigint FOR UPDATE SKIP LOCKED
) AS over
WHERE r.name = over.name;

-- hand_on(name, owner, next, label, lease, floor)
UPDATE "leasehold_locks" AS l SET
    owner = $3, label = $4, token = greatest((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, l.token + 1, $6), version = l.version + 1,
    expires = pg_catalog.clock_timestamp() + $5, kept = false
WHERE name = $1 AND owner = $2 AND expires > pg_catalog.clock_timestamp() AND l.waiters IS NULL
    AND (l.buried IS NULL OR $3 <> ALL (l.buried))
    AND l.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false))
    AND l.itself = pg_catalog.pg_relation_filenode('"leasehold_locks"'::regclass)
    AND true
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_locks"'::regclass)
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_marker"'::regclass)
AND pg_catalog.pg_relation_is_publishable('"leasehold_settings"'::regclass)
RETURNING token;

-- health()
SELECT greatest(
        (
            SELECT pg_catalog.date_part('epoch', pg_catalog.max(pg_catalog.clock_timestamp() - a.xact_start))
            FROM pg_catalog.pg_stat_activity AS a JOIN pg_catalog.pg_database AS d ON d.oid = a.datid
            WHERE d.datname = pg_catalog.current_database() AND a.backend_xmin IS NOT NULL
                AND a.pid <> pg_catalog.pg_backend_pid()
        ),
        (
            SELECT pg_catalog.date_part('epoch', pg_catalog.max(pg_catalog.clock_timestamp() - p.prepared)) FROM pg_catalog.pg_prepared_xacts AS p
            WHERE p.database = pg_catalog.current_database()
        ),
        0::double precision
    )::bigint,
    (pg_catalog.pg_notification_queue_usage() * 100::double precision)::bigint,
    pg_catalog.current_setting('max_connections')::bigint,
(SELECT pg_catalog.sum(pg_catalog.pg_stat_get_db_numbackends(d.oid)) FROM pg_catalog.pg_database AS d)::bigint;

-- heartbeat(name, owner, entry, life)
WITH beat AS (
    INSERT INTO "leasehold_queue" (name, owner, alive) VALUES ($1, $2, pg_catalog.clock_timestamp() + $4)
    ON CONFLICT (name, owner) DO UPDATE SET alive = excluded.alive
    RETURNING entered
)
SELECT name, owner, label, token, version, kept, greatest((pg_catalog.date_part('epoch', greatest(least(expires, pg_catalog.clock_timestamp() + interval '1000 years'), pg_catalog.clock_timestamp()) - pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, 0) AS remaining,
greatest((pg_catalog.date_part('epoch', greatest(least(turn, pg_catalog.clock_timestamp() + interval '1000 years'), pg_catalog.clock_timestamp()) - pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, 0) AS turn, pg_catalog.cardinality(waiters)::bigint + (far IS NOT NULL)::integer AS waiting,
coalesce(waiters[1], CASE WHEN waiters IS NOT NULL THEN '' END) AS first, CASE WHEN owner = '00000000000000000000000000000000' THEN (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) END AS readers, pg_catalog.array_position(l.waiters, $3) AS position, (far IS NOT NULL AND coalesce(pg_catalog.cardinality(waiters), 0) < 16 / 2) AS short, false AS granted,
    coalesce(l.far IS NOT NULL AND beat.entered > coalesce(l.moved, 0::bigint), false) AS behind,
    (SELECT pg_catalog.count(*) FROM (
        SELECT 1 FROM "leasehold_queue" AS b
        WHERE b.name = $1 AND b.entered > coalesce(l.moved, 0::bigint) AND b.entered < beat.entered LIMIT 200
    ) AS b) AS before
FROM "leasehold_locks" AS l CROSS JOIN beat WHERE l.name = $1;

-- highest_token()
SELECT greatest(
    (SELECT coalesce(pg_catalog.max(watermark), 0) FROM "leasehold_marker"),
    (SELECT coalesce(pg_catalog.max(token), 0) FROM "leasehold_locks")
);

-- identity()
SELECT coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false)) || '/' || '"leasehold_settings"'::regclass::oid::text;

-- insert(name, owner, label, lease, floor)
INSERT INTO "leasehold_locks" AS l (name, owner, label, token, version, expires, kept, store, itself)
SELECT $1, $2, $3, greatest(
    (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint,
    m.watermark + 1,
    $5), 1, pg_catalog.clock_timestamp() + $4, false,
    m.store, pg_catalog.pg_relation_filenode('"leasehold_locks"'::regclass)
FROM "leasehold_marker" AS m WHERE true
AND m.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false))
AND m.itself = pg_catalog.pg_relation_filenode('"leasehold_marker"'::regclass)
AND m.grants_from <= pg_catalog.clock_timestamp()
AND true
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_locks"'::regclass)
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_marker"'::regclass)
AND pg_catalog.pg_relation_is_publishable('"leasehold_settings"'::regclass)
ON CONFLICT (name) DO UPDATE SET
    token = greatest((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, l.token + 1, $5),
    owner = $2, label = $3, version = l.version + 1, expires = pg_catalog.clock_timestamp() + $4, kept = false,
    store = excluded.store, itself = excluded.itself
WHERE
    (l.owner IS NULL OR l.expires <= pg_catalog.clock_timestamp()) AND
    l.waiters IS NULL AND true
AND (l.buried IS NULL OR $2 <> ALL (l.buried))
RETURNING token
    / (pg_catalog.clock_timestamp() BETWEEN pg_catalog.now() AND pg_catalog.now() + interval '30 seconds')::integer;

-- is_turn(name, entry)
SELECT NOT EXISTS (
    SELECT 1 FROM "leasehold_locks" AS l WHERE name = $1 AND CASE
        WHEN l.owner = '00000000000000000000000000000000' AND l.expires > pg_catalog.clock_timestamp() AND pg_catalog.substr($2, 65, 1) = '*'
            THEN waiters[1] IS DISTINCT FROM $2
        WHEN owner IS NOT NULL AND expires > pg_catalog.clock_timestamp() THEN owner <> pg_catalog.left($2, 32)
        ELSE waiters IS NOT NULL AND waiters[1] <> $2 AND coalesce(turn > pg_catalog.clock_timestamp(), true)
    END
);

-- join(name, owner, label, lease, floor)
INSERT INTO "leasehold_locks" AS l (name, owner, readers, label, token, version, expires, kept, store, itself)
SELECT $1, '00000000000000000000000000000000', pg_catalog.jsonb_build_object($2::text, (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() + $4::interval) * 1000000::double precision)::bigint), $3, greatest((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, m.watermark + 1, $5), 1, pg_catalog.clock_timestamp() + $4, false,
    m.store, pg_catalog.pg_relation_filenode('"leasehold_locks"'::regclass)
FROM "leasehold_marker" AS m WHERE true
AND m.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false))
AND m.itself = pg_catalog.pg_relation_filenode('"leasehold_marker"'::regclass)
AND m.grants_from <= pg_catalog.clock_timestamp()
AND true
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_locks"'::regclass)
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_marker"'::regclass)
AND pg_catalog.pg_relation_is_publishable('"leasehold_settings"'::regclass)
ON CONFLICT (name) DO UPDATE SET
    token = CASE WHEN (l.expires > pg_catalog.clock_timestamp() AND
l.owner = '00000000000000000000000000000000' AND
NOT (l.owner = '00000000000000000000000000000000' AND coalesce((l.readers ->> $2::text)::bigint, 0::bigint) > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint)
AND (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) < 1000
) THEN greatest(l.token, $5)
        ELSE greatest((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, l.token + 1, $5)
    END,
    expires = greatest(pg_catalog.clock_timestamp() + $4, CASE WHEN (l.expires > pg_catalog.clock_timestamp() AND
l.owner = '00000000000000000000000000000000' AND
NOT (l.owner = '00000000000000000000000000000000' AND coalesce((l.readers ->> $2::text)::bigint, 0::bigint) > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint)
AND (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) < 1000
) THEN
        l.expires
    END),
    readers = coalesce(CASE WHEN (l.expires > pg_catalog.clock_timestamp() AND
l.owner = '00000000000000000000000000000000' AND
NOT (l.owner = '00000000000000000000000000000000' AND coalesce((l.readers ->> $2::text)::bigint, 0::bigint) > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint)
AND (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) < 1000
) THEN
        (SELECT pg_catalog.jsonb_object_agg(r.key, r.value) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint)
    END, pg_catalog.jsonb_build_object()) || pg_catalog.jsonb_build_object($2::text, (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() + $4::interval) * 1000000::double precision)::bigint),
    owner = '00000000000000000000000000000000', label = $3, version = l.version + 1, kept = false, store = excluded.store, itself = excluded.itself
WHERE (l.owner IS NULL OR l.expires <= pg_catalog.clock_timestamp() OR (l.expires > pg_catalog.clock_timestamp() AND
l.owner = '00000000000000000000000000000000' AND
NOT (l.owner = '00000000000000000000000000000000' AND coalesce((l.readers ->> $2::text)::bigint, 0::bigint) > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint)
AND (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) < 1000
)) AND
    l.waiters IS NULL AND
    true
AND (l.buried IS NULL OR $2 <> ALL (l.buried))
RETURNING token / (pg_catalog.clock_timestamp() BETWEEN pg_catalog.now() AND pg_catalog.now() + interval '30 seconds')::integer;

-- keep(name, owner, lease)
UPDATE "leasehold_locks" SET expires = pg_catalog.clock_timestamp() + $3, kept = true
WHERE name = $1 AND owner = $2 AND expires > pg_catalog.clock_timestamp()
RETURNING version;

-- leave(name, owner, entry)
WITH gone AS (
    UPDATE "leasehold_locks" AS l SET
        owner = CASE WHEN l.owner = $2 THEN NULL ELSE l.owner END,
        turn = CASE WHEN l.waiters[1] = $3 THEN NULL ELSE l.turn END,
        (waiters, alive) = (
    SELECT
        CASE WHEN l.far IS NULL THEN q.entries ELSE coalesce(q.entries, ARRAY[]::text[]) END,
        CASE WHEN l.far IS NULL THEN q.alive ELSE coalesce(q.alive, ARRAY[]::timestamptz[]) END
    FROM (
        SELECT pg_catalog.array_agg(p.entry ORDER BY p.at) AS entries, pg_catalog.array_agg(p.alive ORDER BY p.at) AS alive
        FROM unnest(l.waiters, l.alive) WITH ORDINALITY AS p (entry, alive, at)
        WHERE pg_catalog.left(p.entry, 32) <> $2
    ) AS q
)
    WHERE name = $1 AND (l.owner = $2 OR $3 = ANY (l.waiters) OR l.far IS NOT NULL)
    RETURNING (far IS NOT NULL AND coalesce(pg_catalog.cardinality(waiters), 0) < 16 / 2) AS short, CASE
        WHEN (owner IS NULL OR expires <= pg_catalog.clock_timestamp() OR coalesce(l.owner = '00000000000000000000000000000000' AND pg_catalog.substr(l.waiters[1], 65, 1) = '*', false)) AND waiters[1] IS NOT NULL THEN pg_catalog.pg_notify(
'leasehold_' || pg_catalog.substr(waiters[1], 33, 32)
, pg_catalog.left(waiters[1], 32))
    END AS notified
),
forgotten AS (
    DELETE FROM "leasehold_queue" WHERE name = $1
        AND owner = $2
)
SELECT * FROM gone;

-- list(after, most)
SELECT name, owner, label, token, version, kept, greatest((pg_catalog.date_part('epoch', greatest(least(expires, pg_catalog.clock_timestamp() + interval '1000 years'), pg_catalog.clock_timestamp()) - pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, 0) AS remaining,
greatest((pg_catalog.date_part('epoch', greatest(least(turn, pg_catalog.clock_timestamp() + interval '1000 years'), pg_catalog.clock_timestamp()) - pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, 0) AS turn, pg_catalog.cardinality(waiters)::bigint + (far IS NOT NULL)::integer AS waiting,
coalesce(waiters[1], CASE WHEN waiters IS NOT NULL THEN '' END) AS first, CASE WHEN owner = '00000000000000000000000000000000' THEN (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) END AS readers, pg_catalog.cardinality(waiters)::bigint + CASE WHEN far IS NULL THEN 0::bigint ELSE (
SELECT pg_catalog.count(*) FROM "leasehold_queue" AS b
WHERE b.name = l.name AND b.entered > coalesce(l.moved, 0::bigint)) END AS waiting_all FROM "leasehold_locks" AS l
WHERE name > $1 AND owner IS NOT NULL AND expires > pg_catalog.clock_timestamp()
ORDER BY name LIMIT $2;

-- make_marker(longest)
WITH trusted AS (
    SELECT name FROM "leasehold_locks" WHERE store IS NOT NULL
    FOR UPDATE NOWAIT
),
doubted AS (
    UPDATE "leasehold_locks" AS l SET store = NULL FROM trusted WHERE l.name = trusted.name
)
INSERT INTO "leasehold_marker" AS m (id, store, itself, grants_from, watermark, raised, records_since)
SELECT 1, coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false)), pg_catalog.pg_relation_filenode('"leasehold_marker"'::regclass), pg_catalog.clock_timestamp() + s.held_back, 0, 'epoch',
    pg_catalog.clock_timestamp()
FROM (
    SELECT CASE WHEN quarantined THEN greatest(quarantine
        , $1
        ) ELSE interval '0' END AS held_back
    FROM "leasehold_settings"
) AS s
ON CONFLICT (id) DO UPDATE SET
    store = excluded.store, itself = excluded.itself, records_since = excluded.records_since,
    grants_from = pg_catalog.clock_timestamp() + (
        SELECT CASE WHEN quarantined THEN greatest(quarantine
            , $1
            ) ELSE interval '0' END
        FROM "leasehold_settings"
    )
WHERE (m.store, m.itself) <> (excluded.store, excluded.itself);

-- notify(channel)
SELECT pg_catalog.pg_notify($1, '');

-- open_at_once()
INSERT INTO "leasehold_marker" AS m (id, store, itself, grants_from, watermark, raised, records_since)
VALUES (1, coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false)), pg_catalog.pg_relation_filenode('"leasehold_marker"'::regclass), 'epoch', 0, 'epoch', pg_catalog.clock_timestamp())
ON CONFLICT (id) DO UPDATE SET
    store = excluded.store, itself = excluded.itself, grants_from = excluded.grants_from,
    records_since = CASE WHEN (m.store, m.itself) = (excluded.store, excluded.itself) THEN m.records_since ELSE excluded.records_since END;

-- part(name, owner)
UPDATE "leasehold_locks" AS l SET (owner, readers, expires) = (
    SELECT CASE WHEN pg_catalog.count(*) = 0 THEN $2 ELSE l.owner END, pg_catalog.jsonb_object_agg(r.key, r.value),
        coalesce(pg_catalog.to_timestamp(pg_catalog.max(r.value::bigint) / 1000000::double precision), l.expires)
    FROM pg_catalog.jsonb_each(l.readers) AS r
    WHERE r.key <> $2
        AND r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint
)
WHERE name = $1 AND (l.owner = '00000000000000000000000000000000' AND coalesce((l.readers ->> $2::text)::bigint, 0::bigint) > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) AND l.expires > pg_catalog.clock_timestamp()
RETURNING l.owner = '00000000000000000000000000000000';

-- quarantine()
SELECT greatest((pg_catalog.date_part('epoch', greatest(least(m.grants_from, pg_catalog.clock_timestamp() + interval '1000 years'), pg_catalog.clock_timestamp()) - pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, 0)
FROM "leasehold_marker" AS m WHERE m.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false)) AND m.itself = pg_catalog.pg_relation_filenode('"leasehold_marker"'::regclass);

-- raise(name, owner, token)
UPDATE "leasehold_locks" AS l SET token = greatest(l.token, $3)
WHERE name = $1 AND (owner = $2 OR (l.owner = '00000000000000000000000000000000' AND coalesce((l.readers ->> $2::text)::bigint, 0::bigint) > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint)) AND expires > pg_catalog.clock_timestamp()
RETURNING version;

-- read_record(name)
SELECT r.token, pg_catalog.encode(r.value, 'hex') AS value, (pg_catalog.date_part('epoch', r.written) * 1000000::double precision)::bigint AS written, (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint AS now,
    (pg_catalog.date_part('epoch', m.records_since) * 1000000::double precision)::bigint AS complete_since
FROM (SELECT $1::text AS name) AS n
LEFT JOIN "leasehold_records" AS r ON r.name = n.name
LEFT JOIN "leasehold_marker" AS m ON
m.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false)) AND
m.itself = pg_catalog.pg_relation_filenode('"leasehold_marker"'::regclass)
WHERE NOT EXISTS (SELECT expires FROM "leasehold_locks" WHERE false);

-- read_row(name, owner)
SELECT name, owner, label, token, version, kept, greatest((pg_catalog.date_part('epoch', greatest(least(expires, pg_catalog.clock_timestamp() + interval '1000 years'), pg_catalog.clock_timestamp()) - pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, 0) AS remaining,
greatest((pg_catalog.date_part('epoch', greatest(least(turn, pg_catalog.clock_timestamp() + interval '1000 years'), pg_catalog.clock_timestamp()) - pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, 0) AS turn, pg_catalog.cardinality(waiters)::bigint + (far IS NOT NULL)::integer AS waiting,
coalesce(waiters[1], CASE WHEN waiters IS NOT NULL THEN '' END) AS first, CASE WHEN owner = '00000000000000000000000000000000' THEN (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint) END AS readers, pg_catalog.cardinality(waiters)::bigint + CASE WHEN far IS NULL THEN 0::bigint ELSE (
SELECT pg_catalog.count(*) FROM "leasehold_queue" AS b
WHERE b.name = l.name AND b.entered > coalesce(l.moved, 0::bigint)) END AS waiting_all, coalesce((l.owner = '00000000000000000000000000000000' AND coalesce((l.readers ->> $2::text)::bigint, 0::bigint) > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint), false) AS mine FROM "leasehold_locks" AS l WHERE name = $1;

-- refill(name)
WITH gone AS (
    DELETE FROM "leasehold_queue" AS p USING "leasehold_locks" AS s
    WHERE s.name = $1 AND p.name = $1 AND p.entered <= s.moved AND p.entry <> ALL (s.waiters)
)
UPDATE "leasehold_locks" AS l SET (waiters, alive, moved, far) = (
    SELECT
        CASE WHEN e.some THEN pg_catalog.array_cat(l.waiters, coalesce(n.entries, ARRAY[]::text[])) END,
        CASE WHEN e.some THEN pg_catalog.array_cat(l.alive, coalesce(n.alive, ARRAY[]::timestamptz[])) END,
        e.moved,
        CASE WHEN coalesce(e.moved < l.far, true) THEN l.far END
    FROM (
        SELECT pg_catalog.array_agg(p.entry ORDER BY p.entered) AS entries, pg_catalog.array_agg(p.alive ORDER BY p.entered) AS alive,
            pg_catalog.count(*) AS taken, pg_catalog.max(p.entered) AS last
        FROM (
            SELECT b.entry, b.alive, b.entered FROM "leasehold_queue" AS b
            WHERE b.name = $1 AND b.alive > pg_catalog.clock_timestamp()
                AND b.entered > coalesce(l.moved, 0::bigint)
            ORDER BY b.entered LIMIT 16 - pg_catalog.cardinality(l.waiters)
        ) AS p
    ) AS n
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN n.taken < 16 - pg_catalog.cardinality(l.waiters)
                AND l.far = (SELECT s.far FROM "leasehold_locks" AS s WHERE s.name = $1)
                THEN l.far
            ELSE coalesce(n.last, l.moved)
        END AS moved
    ) AS m
    CROSS JOIN LATERAL (
        SELECT m.moved, n.taken > 0 OR pg_catalog.cardinality(l.waiters) > 0 OR coalesce(m.moved < l.far, true) AS some
    ) AS e
)
WHERE name = $1 AND (far IS NOT NULL AND coalesce(pg_catalog.cardinality(waiters), 0) < 16 / 2)
RETURNING CASE WHEN (owner IS NULL OR expires <= pg_catalog.clock_timestamp() OR coalesce(l.owner = '00000000000000000000000000000000' AND pg_catalog.substr(l.waiters[1], 65, 1) = '*', false)) AND waiters[1] IS NOT NULL THEN pg_catalog.pg_notify(
'leasehold_' || pg_catalog.substr(waiters[1], 33, 32)
, pg_catalog.left(waiters[1], 32)) END;

-- refuse_tables()
DO $$ DECLARE
    refusal text := (
WITH RECURSIVE ours AS (
    SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname OPERATOR(pg_catalog.=) current_user
    UNION
    SELECT m.roleid FROM pg_catalog.pg_auth_members AS m JOIN ours AS o ON m.member OPERATOR(pg_catalog.=) o.oid
)
SELECT pg_catalog.format(
    'the table "%s" belongs to the role "%s", which "%s" is not a member of, and which could run code in its name; '
    'remove the table, let that role do this, or grant it', t.relname, r.rolname, current_user
)
FROM pg_catalog.pg_class AS t JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) t.relowner
WHERE t.oid OPERATOR(pg_catalog.=) ANY (ARRAY[pg_catalog.to_regclass('"leasehold_settings"')::pg_catalog.oid, pg_catalog.to_regclass('"leasehold_locks"')::pg_catalog.oid, pg_catalog.to_regclass('"leasehold_queue"')::pg_catalog.oid, pg_catalog.to_regclass('"leasehold_marker"')::pg_catalog.oid, pg_catalog.to_regclass('"leasehold_records"')::pg_catalog.oid])
    AND NOT r.rolsuper AND r.rolname OPERATOR(pg_catalog.<>) 'pg_database_owner'
    AND NOT EXISTS (SELECT 1 FROM ours AS o WHERE o.oid OPERATOR(pg_catalog.=) r.oid)
    AND NOT EXISTS (
        SELECT 1 FROM pg_catalog.pg_database AS d
        WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND d.datdba OPERATOR(pg_catalog.=) r.oid
    )
    AND NOT EXISTS (
        SELECT 1 FROM pg_catalog.pg_namespace AS n
        WHERE n.oid OPERATOR(pg_catalog.=) t.relnamespace AND n.nspowner OPERATOR(pg_catalog.=) r.oid
    )
LIMIT 1
    );
BEGIN
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'LH001', MESSAGE = refusal;
    END IF;
END $$;;

-- release(name, owner)
UPDATE "leasehold_locks" SET owner = NULL
WHERE name = $1
    AND owner = $2
    AND expires > pg_catalog.clock_timestamp() AND waiters IS NULL
RETURNING version;

-- release_and_notify(name, owner)
UPDATE "leasehold_locks" AS l SET owner = NULL
WHERE name = $1 AND owner = $2 AND expires > pg_catalog.clock_timestamp()
RETURNING version, (far IS NOT NULL AND coalesce(pg_catalog.cardinality(waiters), 0) < 16 / 2), CASE WHEN waiters[1] IS NOT NULL THEN pg_catalog.pg_notify(
'leasehold_' || pg_catalog.substr(waiters[1], 33, 32)
, pg_catalog.left(waiters[1], 32)) END;

-- release_to_waiter(name, owner, claim, next_entry, life)
UPDATE "leasehold_locks" AS l SET
    owner = pg_catalog.left(l.waiters[1], 32), label = pg_catalog.substr(l.waiters[1], 66),
    client = pg_catalog.substr(l.waiters[1], 33, 32),
    token = greatest((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, l.token + 1), version = l.version + 1,
    expires = pg_catalog.clock_timestamp() + $3::interval, kept = false,
    waiters = CASE
        WHEN $4::text IS NOT NULL AND l.far IS NULL AND pg_catalog.cardinality(l.waiters) <= 16
            THEN pg_catalog.array_append(l.waiters[2:], $4)
        WHEN pg_catalog.cardinality(l.waiters) > 1 OR l.far IS NOT NULL THEN l.waiters[2:] END,
    alive = CASE
        WHEN $4 IS NOT NULL AND l.far IS NULL AND pg_catalog.cardinality(l.waiters) <= 16
            THEN pg_catalog.array_append(l.alive[2:], pg_catalog.clock_timestamp() + $5::interval)
        WHEN pg_catalog.cardinality(l.waiters) > 1 OR l.far IS NOT NULL THEN l.alive[2:] END,
    turn = NULL
WHERE name = $1 AND owner = $2 AND expires > pg_catalog.clock_timestamp()
    AND pg_catalog.substr(l.waiters[1], 65, 1) = '+' AND (
        l.alive[1] > pg_catalog.clock_timestamp() OR
        EXISTS (SELECT 1 FROM "leasehold_queue" AS b WHERE b.name = $1 AND b.owner = pg_catalog.left(l.waiters[1], 32) AND b.alive > pg_catalog.clock_timestamp()) OR
        false
    )
    AND (l.buried IS NULL OR coalesce(pg_catalog.left($4, 32), '') <> ALL (l.buried))
    AND l.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false))
    AND l.itself = pg_catalog.pg_relation_filenode('"leasehold_locks"'::regclass)
    AND true
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_locks"'::regclass)
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_marker"'::regclass)
AND pg_catalog.pg_relation_is_publishable('"leasehold_settings"'::regclass)
RETURNING token, coalesce($4 = ANY (waiters), false), (far IS NOT NULL AND coalesce(pg_catalog.cardinality(waiters), 0) < 16 / 2), pg_catalog.pg_notify(
    'leasehold_' || client,
    owner || '+'
);

-- renew(names, owners, leases)
WITH ours AS (
    SELECT l.name, least(
        (SELECT s.longest_lease FROM "leasehold_settings" AS s),
        g.lease) AS lease
    FROM unnest($1::text[], $2::text[], $3::interval[]) AS g (name, owner, lease)
    JOIN "leasehold_locks" AS l ON l.name = g.name AND l.owner = g.owner
    WHERE NOT l.kept
    AND l.expires > pg_catalog.clock_timestamp()
    FOR UPDATE OF l SKIP LOCKED
)
UPDATE "leasehold_locks" AS l SET expires = greatest(l.expires, pg_catalog.clock_timestamp() + ours.lease)
FROM ours WHERE l.name = ours.name
RETURNING l.owner, (pg_catalog.date_part('epoch', ours.lease) * 1000000::double precision)::bigint;

-- renew_one(name, owner, lease)
UPDATE "leasehold_locks" AS l SET expires = greatest(l.expires, pg_catalog.clock_timestamp() + least(
        (SELECT s.longest_lease FROM "leasehold_settings" AS s),
        $3::interval)),
    readers = CASE WHEN l.owner = '00000000000000000000000000000000' THEN pg_catalog.jsonb_set(
        l.readers, ARRAY[$2], pg_catalog.to_jsonb(greatest((l.readers ->> $2::text)::bigint, (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint + (
            SELECT pg_catalog.date_part('epoch', least(s.longest_lease, $3::interval)) * 1000000::double precision
            FROM "leasehold_settings" AS s
        )::bigint))
    ) ELSE l.readers END
WHERE name = $1 AND (owner = $2 OR (l.owner = '00000000000000000000000000000000' AND coalesce((l.readers ->> $2::text)::bigint, 0::bigint) > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint)) AND NOT l.kept
    AND l.expires > pg_catalog.clock_timestamp()
RETURNING (
    SELECT (pg_catalog.date_part('epoch', least(s.longest_lease, $3)) * 1000000::double precision)::bigint FROM "leasehold_settings" AS s
);

-- renew_readers(names, owners, leases)
WITH ours AS (
    SELECT l.name, g.owner, least((SELECT s.longest_lease FROM "leasehold_settings" AS s), g.lease) AS lease,
        (l.readers ->> g.owner)::bigint AS until
    FROM unnest($1::text[], $2::text[], $3::interval[]) AS g (name, owner, lease)
    JOIN "leasehold_locks" AS l ON l.name = g.name AND l.owner = '00000000000000000000000000000000'
    WHERE true
    AND (l.readers ->> g.owner)::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint
    FOR UPDATE OF l SKIP LOCKED
),
renewed AS (
    UPDATE "leasehold_locks" AS l SET expires = greatest(l.expires, pg_catalog.clock_timestamp() + m.lease),
        readers = coalesce((SELECT pg_catalog.jsonb_object_agg(r.key, r.value) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE r.value::bigint > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint), pg_catalog.jsonb_build_object()) || m.ends
    FROM (
        SELECT o.name, pg_catalog.max(o.lease) AS lease, pg_catalog.jsonb_object_agg(
            o.owner,
            greatest(o.until, (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() + o.lease) * 1000000::double precision)::bigint)
        ) AS ends
        FROM ours AS o GROUP BY o.name
    ) AS m
    WHERE l.name = m.name
    RETURNING l.name
)
SELECT o.owner, (pg_catalog.date_part('epoch', o.lease) * 1000000::double precision)::bigint
FROM ours AS o JOIN renewed AS r ON r.name = o.name;

-- reown(name, former, owner, label, lease, token)
UPDATE "leasehold_locks" AS l SET
    expires = CASE WHEN l.owner = $3 THEN greatest(l.expires, pg_catalog.clock_timestamp() + $5::interval) ELSE pg_catalog.clock_timestamp() + $5::interval END,
    owner = $3, label = $4, version = l.version + 1
WHERE name = $1
    AND (l.owner = $2::text OR l.owner = $3)
    AND l.token = $6::bigint
    AND NOT l.kept
    AND l.expires > pg_catalog.clock_timestamp()
    AND EXISTS (SELECT 1 FROM "leasehold_marker" AS m WHERE true
AND m.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false))
AND m.itself = pg_catalog.pg_relation_filenode('"leasehold_marker"'::regclass)
AND m.grants_from <= pg_catalog.clock_timestamp()
AND true
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_locks"'::regclass)
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_marker"'::regclass)
AND pg_catalog.pg_relation_is_publishable('"leasehold_settings"'::regclass))
    AND true
AND (l.buried IS NULL OR $3 <> ALL (l.buried))
RETURNING version;

-- reset_tokens(lead)
WITH ahead AS (
    SELECT name, (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint AS clock FROM "leasehold_locks" WHERE token > (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint + $1
),
free AS (
    SELECT name FROM "leasehold_locks" WHERE name IN (SELECT name FROM ahead) FOR UPDATE SKIP LOCKED
),
lowered AS (
    UPDATE "leasehold_locks" AS l SET token = ahead.clock
    FROM free JOIN ahead ON ahead.name = free.name WHERE l.name = free.name
    RETURNING 1
)
SELECT (SELECT pg_catalog.count(*) FROM ahead) > (SELECT pg_catalog.count(*) FROM lowered);

-- reset_watermark(longest)
INSERT INTO "leasehold_marker" AS m (id, store, itself, grants_from, watermark, raised, records_since)
SELECT 1, coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false)), pg_catalog.pg_relation_filenode('"leasehold_marker"'::regclass), pg_catalog.clock_timestamp() + greatest(quarantine, $1), 0, 'epoch', pg_catalog.clock_timestamp() FROM "leasehold_settings"
ON CONFLICT (id) DO UPDATE SET
    store = excluded.store, itself = excluded.itself, watermark = 0, raised = 'epoch',
    records_since = CASE WHEN (m.store, m.itself) = (excluded.store, excluded.itself) THEN m.records_since ELSE excluded.records_since END,
    grants_from = greatest(m.grants_from, excluded.grants_from);

-- retake(name, owner, label, lease, floor, version)
UPDATE "leasehold_locks" AS l SET
    token = greatest((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, l.token + 1, $5),
    owner = $2, label = $3, version = l.version + 1, expires = pg_catalog.clock_timestamp() + $4, kept = false
WHERE name = $1 AND (l.owner IS NULL OR l.expires <= pg_catalog.clock_timestamp()) AND l.waiters IS NULL AND true
AND (l.buried IS NULL OR $2 <> ALL (l.buried))
    AND l.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false))
    AND l.itself = pg_catalog.pg_relation_filenode('"leasehold_locks"'::regclass)
    AND l.version = coalesce($6, l.version)
    AND true
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_locks"'::regclass)
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_marker"'::regclass)
AND pg_catalog.pg_relation_is_publishable('"leasehold_settings"'::regclass)
RETURNING token;

-- session_count()
SELECT pg_catalog.current_setting('max_connections')::bigint,
(SELECT pg_catalog.sum(pg_catalog.pg_stat_get_db_numbackends(d.oid)) FROM pg_catalog.pg_database AS d)::bigint;

-- set_longest_lease(longest)
UPDATE "leasehold_settings" SET longest_lease = $1, quarantine = greatest(quarantine, $1)
RETURNING CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
THEN pg_catalog.set_config('synchronous_commit', 'on', true) END;

-- set_quarantine(quarantined)
WITH held_back AS (
    INSERT INTO "leasehold_marker" AS m (id, store, itself, grants_from, watermark, raised, records_since)
    SELECT 1, coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false)), pg_catalog.pg_relation_filenode('"leasehold_marker"'::regclass), pg_catalog.clock_timestamp() + quarantine, 0, 'epoch', pg_catalog.clock_timestamp()
    FROM "leasehold_settings" WHERE $1 AND NOT quarantined
    ON CONFLICT (id) DO UPDATE SET
        store = excluded.store, itself = excluded.itself, records_since = CASE WHEN (m.store, m.itself) = (excluded.store, excluded.itself) THEN m.records_since ELSE excluded.records_since END,
        grants_from = greatest(m.grants_from, excluded.grants_from)
)
UPDATE "leasehold_settings" SET quarantined = $1
RETURNING CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
THEN pg_catalog.set_config('synchronous_commit', 'on', true) END;

-- set_records_complete()
UPDATE "leasehold_marker" SET records_since = 'epoch' WHERE store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false)) AND itself = pg_catalog.pg_relation_filenode('"leasehold_marker"'::regclass);

-- settings()
SELECT (pg_catalog.date_part('epoch', longest_lease) * 1000000::double precision)::bigint,
    (pg_catalog.date_part('epoch', quarantine) * 1000000::double precision)::bigint, quarantined,
    pg_catalog.current_setting('fsync') = 'on' AND
    true
FROM "leasehold_settings";

-- sweep(most)
WITH free AS (
    SELECT l.name FROM "leasehold_locks" AS l, "leasehold_marker" AS m
    WHERE (l.owner IS NULL OR l.expires <= pg_catalog.clock_timestamp())
        AND l.token <= m.watermark AND m.raised + interval '1 minute' <= pg_catalog.clock_timestamp()
        AND NOT EXISTS (
            SELECT 1 FROM pg_catalog.unnest(l.alive) AS alive WHERE alive > pg_catalog.clock_timestamp() - interval '1 minute'
        )
        AND (l.far IS NULL OR l.far < (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint - 60000000::bigint AND NOT EXISTS (
            SELECT 1 FROM "leasehold_queue" AS b WHERE b.name = l.name AND b.alive > pg_catalog.clock_timestamp() - interval '1 minute'
        ))
        AND NOT EXISTS (SELECT 1 FROM pg_catalog.unnest(l.buried_at) AS at WHERE at > pg_catalog.clock_timestamp() - interval '1 hour')
    LIMIT $1::bigint
    FOR UPDATE OF l SKIP LOCKED
),
swept AS (
    DELETE FROM "leasehold_locks" AS l USING free WHERE l.name = free.name
    RETURNING 1
)
SELECT pg_catalog.count(*) FROM swept;

-- sweep_entries(most)
DELETE FROM "leasehold_queue" AS p USING (
    SELECT b.name, b.owner FROM "leasehold_queue" AS b WHERE b.alive < pg_catalog.clock_timestamp() - interval '1 minute'
    LIMIT $1::bigint FOR UPDATE SKIP LOCKED
) AS dead
WHERE p.name = dead.name AND p.owner = dead.owner;

-- sweep_watermark()
UPDATE "leasehold_marker" SET
    watermark = greatest(watermark, (
        SELECT coalesce(pg_catalog.max(token), 0) FROM "leasehold_locks" WHERE owner IS NULL OR expires <= pg_catalog.clock_timestamp()
    )),
    raised = pg_catalog.clock_timestamp()
WHERE id = (
    SELECT id FROM "leasehold_marker" WHERE raised + interval '1 minute' <= pg_catalog.clock_timestamp() OR raised > pg_catalog.clock_timestamp() FOR UPDATE SKIP LOCKED
);

-- take(name, owner, label, lease, floor, version)
UPDATE "leasehold_locks" AS l SET
    token = greatest((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, l.token + 1, $5),
    owner = $2, label = $3, version = l.version + 1, expires = pg_catalog.clock_timestamp() + $4, kept = false,
    store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false)), itself = pg_catalog.pg_relation_filenode('"leasehold_locks"'::regclass)
WHERE name = $1 AND version = $6
    AND (l.owner IS NULL OR l.expires <= pg_catalog.clock_timestamp()) AND l.waiters IS NULL AND true
AND (l.buried IS NULL OR $2 <> ALL (l.buried))
    AND EXISTS (SELECT 1 FROM "leasehold_marker" AS m WHERE true
AND m.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('"leasehold_marker"') from '([0-9]+)/[0-9]+$'), false))
AND m.itself = pg_catalog.pg_relation_filenode('"leasehold_marker"'::regclass)
AND m.grants_from <= pg_catalog.clock_timestamp()
AND true
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_locks"'::regclass)
AND NOT pg_catalog.pg_relation_is_publishable('"leasehold_marker"'::regclass)
AND pg_catalog.pg_relation_is_publishable('"leasehold_settings"'::regclass))
RETURNING token;

-- version()
SELECT (SELECT version FROM "leasehold_settings" WHERE id = 1)::bigint FROM (SELECT 0 AS version) AS before
WHERE EXISTS (SELECT 1 FROM "leasehold_settings" WHERE id = 1);

-- write_record(name, owner, token, number, value, keep_for)
WITH held AS (
    SELECT 1 FROM "leasehold_locks" AS l
    WHERE l.name = $1
    AND l.owner = $2
    AND NOT l.kept
    AND l.expires > pg_catalog.clock_timestamp()
    FOR NO KEY UPDATE
),
written AS (
    INSERT INTO "leasehold_records" AS r (name, token, number, value, written, forget_at)
    SELECT $1, $3::bigint, $4::bigint, pg_catalog.decode($5, 'hex'), pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp() + $6::interval
    FROM held
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
    RETURNING 1, CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
THEN pg_catalog.set_config('synchronous_commit', 'on', true) END
)
SELECT EXISTS (SELECT 1 FROM written) OR EXISTS (
    SELECT 1 FROM "leasehold_records" WHERE name = $1 AND token = $3 AND number >= $4
),
    NOT pg_catalog.pg_relation_is_publishable('"leasehold_records"'::regclass) OR
    false;

-- writers()
SELECT DISTINCT l.virtualtransaction FROM pg_catalog.pg_locks AS l
JOIN pg_catalog.pg_database AS d ON d.oid = l.database
WHERE d.datname = pg_catalog.current_database() AND l.relation = '"leasehold_locks"'::regclass::oid
    AND l.mode = 'RowExclusiveLock';
