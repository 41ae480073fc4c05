-- Readers that share a lock. All have one token, and each has the end of its own lease. The lease
-- of the row ends with the last of these. Whoever joins, leaves or renews drops the readers whose
-- leases are over.

-- name: join(name, owner, label, lease, floor)
-- Makes $owner a reader. The name is free, and is taken as by `insert`, or readers share it and
-- nobody waits.
INSERT INTO {locks} AS l (name, owner, readers, label, token, version, expires, kept, store, itself)
SELECT $name, {shared}, {alone}, $label, greatest({micros}, m.watermark + 1, $floor), 1, {now} + $lease, false,
    m.store, {locks_file}
FROM {marker} AS m WHERE {granting}
ON CONFLICT (name) DO UPDATE SET
    token = CASE WHEN {open} THEN greatest(l.token, $floor)
        -- guard: join-above | S2 | tokens_rise_between_readers_and_writers | ELSE greatest(0, $5)
        ELSE greatest({micros}, l.token + 1, $floor)
    END,
    expires = greatest({now} + $lease, CASE WHEN {open} THEN
        -- guard: join-expires | S1 | a_reader_with_a_short_lease | NULL::timestamptz
        l.expires
    END),
    readers = coalesce(CASE WHEN {open} THEN
        -- guard: join-others | S1 | a_reader_that_leaves_twice_counts_once | NULL::jsonb
        {live_readers}
    END, pg_catalog.jsonb_build_object()) || {alone},
    owner = {shared}, label = $label, version = l.version + 1, kept = false, store = excluded.store, itself = excluded.itself
WHERE (l.owner IS NULL OR l.expires <= {now} OR {open}) AND
    -- guard: join-barging | L3 | no_reader_passes_a_waiting_writer
    l.waiters IS NULL AND
    {not_abandoned}
RETURNING token / {young}

-- name: part(name, owner)
-- Removes the reader $owner from those who share the lock. The row's lease then ends with the last
-- of theirs. The last reader holds the lock alone, and must release it. Answers whether others are
-- left.
UPDATE {locks} AS l SET (owner, readers, expires) = (
    SELECT CASE WHEN pg_catalog.count(*) = 0 THEN $owner ELSE l.owner END, pg_catalog.jsonb_object_agg(r.key, r.value),
        coalesce(pg_catalog.to_timestamp(pg_catalog.max(r.value::bigint) / 1000000::double precision), l.expires)
    FROM pg_catalog.jsonb_each(l.readers) AS r
    WHERE r.key <> $owner
        -- guard: part-alive | L2 | a_release_beside_a_crashed_reader
        AND {is_alive}
)
WHERE name = $name AND {is_reader} AND l.expires > {now}
RETURNING l.owner = {shared}

-- name: renew_readers(names, owners, leases)
-- Renews a batch of readers, of which several may share a lock. Otherwise as `renew`, with the same
-- answer.
WITH ours AS (
    SELECT l.name, g.owner, least((SELECT s.longest_lease FROM {settings} AS s), g.lease) AS lease,
        (l.readers ->> g.owner)::bigint AS until
    FROM unnest($names::text[], $owners::text[], $leases::interval[]) AS g (name, owner, lease)
    JOIN {locks} AS l ON l.name = g.name AND l.owner = {shared}
    WHERE true
    -- guard: renew-reader | S5 | a_reader_that_left_renews_nothing
    -- guard: renew-reader-late | S5 | a_late_renewal_by_a_reader
    -- guard: renew-reader-beside-another | S5 | a_late_renewal_beside_another |
    --   AND l.readers ->> g.owner <> '' AND l.expires > pg_catalog.clock_timestamp()
    AND (l.readers ->> g.owner)::bigint > {micros}
    FOR UPDATE OF l SKIP LOCKED
),
renewed AS (
    UPDATE {locks} AS l SET expires = greatest(l.expires, {now} + m.lease),
        readers = coalesce({live_readers}, pg_catalog.jsonb_build_object()) || m.ends
    FROM (
        SELECT o.name, pg_catalog.max(o.lease) AS lease, pg_catalog.jsonb_object_agg(
            o.owner,
            greatest(o.until, (pg_catalog.date_part('epoch', {now} + o.lease) * 1000000::double precision)::bigint)
        ) AS ends
        FROM ours AS o GROUP BY o.name
    ) AS m
    WHERE l.name = m.name
    RETURNING l.name
)
SELECT o.owner, (pg_catalog.date_part('epoch', o.lease) * 1000000::double precision)::bigint
FROM ours AS o JOIN renewed AS r ON r.name = o.name

-- part: open
-- Whether $owner may become one of the readers that share the row.
(l.expires > {now} AND
-- guard: join-readers | S1 | a_reader_beside_a_writer
l.owner = {shared} AND
NOT {is_reader}
-- guard: join-most | S1 | a_reader_beside_the_most
-- guard: join-living | L1 | beside_crashed_readers |
--   AND (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_object_keys(l.readers)) < 1000
AND {count_readers} < {most}
)

-- part: is_reader
-- Whether $owner is one of these readers, and its lease is not over.
(l.owner = {shared} AND coalesce((l.readers ->> $owner::text)::bigint, 0::bigint) > {micros})

-- part: is_alive
-- Whether the lease of the reader `r` is not over.
r.value::bigint > {micros}

-- part: count_readers
-- How many readers share the row.
(SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE {is_alive})

-- part: live_readers
-- The readers that share the row, with their ends. Null if there are none.
(SELECT pg_catalog.jsonb_object_agg(r.key, r.value) FROM pg_catalog.jsonb_each(l.readers) AS r WHERE {is_alive})

-- part: alone
-- $owner as the only reader.
pg_catalog.jsonb_build_object($owner::text, {end_of_lease})

-- part: end_of_lease
-- In microseconds.
(pg_catalog.date_part('epoch', {now} + $lease::interval) * 1000000::double precision)::bigint

-- part: reader_next
-- Whether readers share the row, and the first entry is another reader's.
coalesce(l.owner = {shared} AND pg_catalog.substr(l.waiters[1], 65, 1) = '*', false)
