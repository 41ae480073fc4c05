-- Moves entries of $1 from the tail of the queue to its head, if half of the head is free, and deletes the rows of
-- entries that moved earlier and are gone. If the lock is free, notifies the first entry.
-- Entries join the tail one after the other, each under the row's lock. So this statement sees the first of them in their
-- order, even if it waited for the row; it may miss the last ones. It treats the tail as empty only if nobody has joined
-- the tail since it began. An entry that left meanwhile counts as dead.
WITH gone AS (
    DELETE FROM {queue} AS p USING {locks} AS s
    WHERE s.name = $1 AND p.name = $1 AND p.entered <= s.moved AND p.entry <> ALL (s.waiters)
)
UPDATE {locks} AS l SET (waiters, alive, moved, far) = (
    SELECT
        CASE WHEN e.some THEN pg_catalog.array_cat(l.waiters, coalesce(n.entries, ARRAY[]::text[])) END,
        CASE WHEN e.some THEN pg_catalog.array_cat(l.alive, coalesce(n.alive, ARRAY[]::timestamptz[])) END,
        e.moved,
        CASE WHEN coalesce(e.moved < l.far, true) THEN l.far END
    FROM (
        SELECT pg_catalog.array_agg(p.entry ORDER BY p.entered) AS entries, pg_catalog.array_agg(p.alive ORDER BY p.entered) AS alive,
            pg_catalog.count(*) AS taken, pg_catalog.max(p.entered) AS last
        FROM (
            SELECT b.entry, b.alive, b.entered FROM {queue} AS b
            WHERE b.name = $1 AND b.alive > {now}
                -- guard: refill-moved
                AND b.entered > coalesce(l.moved, 0::bigint)
            ORDER BY b.entered LIMIT {near} - pg_catalog.cardinality(l.waiters)
        ) AS p
    ) AS n
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN n.taken < {near} - pg_catalog.cardinality(l.waiters)
                -- guard: refill-newest
                AND l.far = (SELECT s.far FROM {locks} AS s WHERE s.name = $1)
                THEN l.far
            ELSE coalesce(n.last, l.moved)
        END AS moved
    ) AS m
    CROSS JOIN LATERAL (
        SELECT m.moved, n.taken > 0 OR pg_catalog.cardinality(l.waiters) > 0 OR coalesce(m.moved < l.far, true) AS some
    ) AS e
)
WHERE name = $1 AND {short}
RETURNING CASE WHEN (owner IS NULL OR expires <= {now} OR {reader_next}) AND waiters[1] IS NOT NULL THEN {notify_first} END
