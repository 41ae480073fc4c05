-- Deletes what is needed no more.

-- name: sweep(most)
-- First step of a sweep: deletes at most $most free rows whose tokens the watermark has covered for
-- a minute. A statement that inserts such a row again has read that watermark, because no statement
-- older than half a minute succeeds (`insert`). A row stays if somebody waits for it, or if it has
-- tombstones. Rows that another transaction has locked are left to the next sweep: nothing waits
-- for them while it holds other rows. Answers how many rows it deleted.
WITH free AS (
    SELECT l.name FROM {locks} AS l, {marker} AS m
    WHERE (l.owner IS NULL OR l.expires <= {now})
        -- guard: sweep-covered | S2 | a_token_over_a_sweep
        AND l.token <= m.watermark AND m.raised + interval '1 minute' <= {now}
        AND NOT EXISTS (
            SELECT 1 FROM pg_catalog.unnest(l.alive) AS alive WHERE alive > {now} - interval '1 minute'
        )
        -- `far` is about the time at which the last entry joined the tail.
        AND (l.far IS NULL OR l.far < {micros} - 60000000::bigint AND NOT EXISTS (
            SELECT 1 FROM {queue} AS b WHERE b.name = l.name AND b.alive > {now} - interval '1 minute'
        ))
        AND NOT EXISTS (SELECT 1 FROM pg_catalog.unnest(l.buried_at) AS at WHERE at > {now} - interval '1 hour')
    LIMIT $most::bigint
    -- guard: sweep-skips | L2 | a_sweep_beside_a_locked_row | FOR UPDATE OF l
    FOR UPDATE OF l SKIP LOCKED
),
swept AS (
    DELETE FROM {locks} AS l USING free WHERE l.name = free.name
    RETURNING 1
)
SELECT pg_catalog.count(*) FROM swept

-- name: sweep_watermark
-- Second step of a sweep: raises the watermark to the tokens of all free rows, for the sweep after
-- this one. Whatever deletes a token raises the watermark to it first. It does so at most once a
-- minute, since each raise starts the minute of `sweep` anew. If the clock was set back, it raises
-- at once: otherwise there would be no sweep until the clock is where it was. It leaves the marker
-- alone while another transaction has locked it.
UPDATE {marker} SET
    watermark = greatest(watermark, (
        SELECT coalesce(pg_catalog.max(token), 0) FROM {locks} WHERE owner IS NULL OR expires <= {now}
    )),
    raised = {now}
WHERE id = (
    SELECT id FROM {marker} WHERE raised + interval '1 minute' <= {now} OR raised > {now} FOR UPDATE SKIP LOCKED
)

-- name: sweep_entries(most)
-- Third step of a sweep: deletes at most $most rows of entries that have long been dead. Rows that
-- others have locked are left to the next sweep.
DELETE FROM {queue} AS p USING (
    SELECT b.name, b.owner FROM {queue} AS b WHERE b.alive < {now} - interval '1 minute'
    LIMIT $most::bigint FOR UPDATE SKIP LOCKED
) AS dead
WHERE p.name = dead.name AND p.owner = dead.owner
