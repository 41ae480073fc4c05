-- Bars the owner $2 from the name $1: no attempt of it succeeds any more, and it loses its lock and its queue entry. A
-- lock that was released, and is kept for a minimum hold, stays.
-- An attempt that arrived before this statement has locked the row, so this statement waits for it. A later attempt finds
-- the tombstone in the row itself. Tombstones older than an hour are dropped, because no statement of such an owner is
-- still under way. At most 1000 are kept.
-- No row is made with an old watermark: see insert.sql.
-- Answers whether entries should move from the tail of the queue to its head.
WITH gone AS (
    INSERT INTO {locks} AS l (name, token, version, expires, kept, buried, buried_at)
    SELECT $1, coalesce(pg_catalog.max(m.watermark), 0), 0, {now}, false, ARRAY[$2], ARRAY[{now}]
    FROM {marker} AS m
    ON CONFLICT (name) DO UPDATE SET
        owner = CASE WHEN l.owner = $2
            -- guard: abandon-kept
            AND NOT l.kept
            THEN NULL ELSE l.owner END,
        turn = CASE WHEN pg_catalog.left(l.waiters[1], 32) = $2 THEN NULL ELSE l.turn END,
        (waiters, alive) = {without},
        (buried, buried_at) = (
            SELECT pg_catalog.array_agg(b.owner), pg_catalog.array_agg(b.at)
            FROM (
                SELECT $2 AS owner, {now} AS at
                UNION ALL
                (
                    SELECT o.owner, o.at FROM unnest(l.buried, l.buried_at) AS o (owner, at)
                    WHERE o.owner <> $2 AND o.at > {now} - interval '1 hour'
                    ORDER BY o.at DESC LIMIT 999
                )
            ) AS b
        )
    RETURNING {short} AS short, CASE
        WHEN (owner IS NULL OR expires <= {now} OR {reader_next}) AND waiters[1] IS NOT NULL THEN {notify_first}
    END AS notified, 1 / {young} AS young
),
forgotten AS (
    DELETE FROM {queue} WHERE name = $1 AND owner = $2
)
SELECT * FROM gone
