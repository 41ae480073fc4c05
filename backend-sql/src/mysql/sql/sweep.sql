-- Deletes what is needed no more. It never waits for a row that another transaction has locked.

-- name: free_names(most)
-- First step of a sweep: at most $most free names that have no tombstones and that nobody waits
-- for.
SELECT HEX(name), token FROM {locks}
WHERE expires <= {now} AND {no_tombstones} AND name NOT IN (SELECT q.name FROM {queue} AS q WHERE {alive})
LIMIT $most

-- name: sweep_watermark(highest)
-- Second step: raises the watermark to the highest token of these names. Whatever deletes a token
-- raises the watermark to it first. Only other sweeps and `init` wait for this row.
UPDATE {settings} SET
    -- guard: sweep-raises | S2 | a_token_over_a_sweep | watermark = watermark + ? * 0
    watermark = GREATEST(watermark, $highest)
WHERE id = 1

-- name: sweep(batch, highest)
-- Third step: deletes the rows of the names in $batch, a JSON array of [name in hexadecimal
-- digits], that are still free, whose tokens are not above $highest, and that nobody else has
-- locked.
DELETE {locks} FROM (
    SELECT l.name FROM {batch} STRAIGHT_JOIN {locks} AS l ON l.name = UNHEX(g.name)
    WHERE l.expires <= {now} AND l.token <= $highest AND (l.buried_at IS NULL OR l.buried_at < {now} - {remembered})
    LIMIT 1000000
    -- guard: sweep-skips | L4 | a_sweep_beside_a_locked_row | FOR UPDATE
    FOR UPDATE SKIP LOCKED
) AS free STRAIGHT_JOIN {locks} ON {locks}.name = free.name

-- name: dead_entries(most)
-- At most $most entries without a heartbeat: their processes have ended. Those of abandoned owners
-- stay for an hour.
SELECT q.position FROM {queue} AS q
WHERE (q.heard > 0 AND NOT ({alive})) OR (q.heard < 0 AND q.heard > {remembered} - {now})
LIMIT $most

-- name: forget_entries(positions)
-- Deletes the entries at $positions, a JSON array, unless they have had a heartbeat since, or
-- somebody else has locked them.
DELETE {queue} FROM (
    SELECT q.position FROM JSON_TABLE($positions, '$[*]' COLUMNS (position BIGINT PATH '$')) AS g
    STRAIGHT_JOIN {queue} AS q ON q.position = g.position
    WHERE NOT ({alive})
    LIMIT 1000000
    FOR UPDATE SKIP LOCKED
) AS dead STRAIGHT_JOIN {queue} ON {queue}.position = dead.position

-- part: no_tombstones
-- Whether the row has no tombstones, or such old ones that no statement of their owners is still
-- under way.
({locks}.buried_at IS NULL OR {locks}.buried_at < {now} - {remembered})
