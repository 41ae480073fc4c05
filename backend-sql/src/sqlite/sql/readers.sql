-- Readers share a row. The clocks and arguments are those of acquire.sql and renew.sql.

-- name: join(name, owner, label, lease, now, epoch, wall, floor)
-- Makes $owner a reader. The name is free, and is taken as by `insert`, or readers share it. An
-- owner that is already a reader renews instead.
-- All readers have one token. The row's lease is the longest of theirs, so it is never shortened.
-- By a clock that is not the row's, each living reader has what was left of its lease when the row
-- was last written.
INSERT INTO {locks} AS l (name, owner, readers, label, token, version, lease, expires, epoch, kept)
SELECT $name, {shared}, json_object($owner, $now + $lease), $label, max($wall, s.watermark + 1, $floor), 1, $lease, $now + $lease, $epoch, 0
FROM {settings} AS s
WHERE true
    -- guard: join-abandoned | S6 | an_abandoned_reader_joins_nothing
    AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = $owner)
    -- guard: join-barging | L3 | no_reader_passes_a_waiting_writer
    AND NOT {behind}
ON CONFLICT (name) DO UPDATE SET
    token = CASE WHEN {is_shared} THEN max(l.token, $floor)
        -- guard: join-above | S2 | tokens_rise_between_readers_and_writers |
        --   ELSE max($wall, $floor)
        ELSE max($wall, l.token + 1, $floor)
    END,
    (readers, expires, lease) = (
        SELECT json_group_object(reader, ends),
            -- guard: join-expires | S1 | a_reader_with_a_short_lease |
            --   $now + $lease, $lease
            max(ends), max(ends) - $now
        FROM (
            SELECT $owner AS reader, $now + $lease AS ends
            -- guard: join-others | S1 | a_reader_that_leaves_twice_counts_once
            UNION ALL SELECT reader, ends - {reached} + $now FROM {living} WHERE {is_shared}
        )
    ),
    owner = {shared}, label = $label, version = l.version + 1, epoch = $epoch, kept = 0
WHERE l.owner IS NULL OR {over} OR (
    l.readers IS NOT NULL AND NOT {is_reader}
    -- guard: join-most | S1 | a_reader_beside_the_most
    AND {count} < {most}
)
RETURNING token

-- name: part(name, owner, now, epoch)
-- Removes the reader $owner from those who share the lock, and those whose leases are over. The
-- last reader then holds the lock alone, and must release it.
UPDATE {locks} AS l SET
    (owner, readers, expires, lease) = (
        SELECT CASE WHEN count(*) THEN l.owner ELSE $owner END, CASE WHEN count(*) THEN json_group_object(reader, ends) END,
            -- guard: part-expires | L1 | a_writer_after_a_reader_that_crashed(leaving) |
            --   l.expires, l.lease
            coalesce(max(ends), l.expires), coalesce(max(ends), l.expires) - {reached}
        FROM {living} WHERE reader <> $owner
    ),
    version = version + 1
WHERE name = $name AND {is_reader}
RETURNING owner

-- name: renew_readers(now, epoch, grants)
-- Renews a batch of readers, of which several may share a lock. Otherwise as `renew`, with the same
-- answer. The other readers of a row keep their ends.
UPDATE {locks} AS l SET
    (readers, expires, lease) = (
        SELECT json_group_object(reader, ends), max(ends), max(ends) - $now
        FROM (
            SELECT reader, max(
                ends - {reached} + $now,
                -- guard: renew-own | L1 | a_writer_after_a_reader_that_crashed(renewing) |
                --   $now + 10000000000) AS ends
                coalesce($now + json_extract(g.leases, '$.' || reader), 0)) AS ends
            FROM {living}
        )
    ),
    epoch = $epoch, version = version + 1
FROM (
    SELECT value ->> 0 AS name, json_group_object(value ->> 1, min(s.longest_lease * 1000000, value ->> 2)) AS leases
    FROM json_each($grants), {settings} AS s
    GROUP BY value ->> 0
) AS g
WHERE l.name = g.name
    -- guard: reader-left/row | S5 | a_reader_that_left_renews_nothing
    AND EXISTS (SELECT 1 FROM {living} WHERE json_extract(g.leases, '$.' || reader) IS NOT NULL)
RETURNING (
    SELECT json_group_array(value ->> 1) FROM json_each($grants) WHERE value ->> 0 = name
    -- guard: reader-left/answer | S5 | a_reader_that_left_renews_nothing
    AND json_extract(readers, '$.' || (value ->> 1)) IS NOT NULL
), (SELECT longest_lease FROM {settings})

-- part: is_reader
-- Whether $owner is a living reader of the row `l`.
EXISTS (SELECT 1 FROM {living} WHERE reader = $owner)

-- part: count
-- How many living readers share the row `l`; null if none do.
CASE WHEN l.readers IS NOT NULL THEN (SELECT count(*) FROM {living}) END

-- part: living
-- The readers of the row `l` whose leases are not over.
(SELECT key AS reader, value AS ends FROM json_each(l.readers)
-- guard: living | S5 | a_late_renewal_by_a_reader
WHERE value > {reached}
)

-- part: reached
-- What the clock of the row `l` has reached at least: now or, if it is not ours, what it was when
-- the row was last written.
(CASE
-- guard: reached | S1 | beside_a_reader_of_another_clock | WHEN false THEN 0
WHEN l.epoch <> $epoch THEN l.expires - l.lease
ELSE $now END)

-- part: is_shared
-- Whether readers share the row `l`.
(l.readers IS NOT NULL AND NOT {over})
