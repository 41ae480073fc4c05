-- The place $3 of the name $1 is given up, and so is what its owner $2 was granted. If that leaves
-- the lock free for the next, it is told. Answers whether places behind are to be brought near the head.
WITH gone AS (
    UPDATE {locks} AS l SET
        owner = CASE WHEN l.owner = $2 THEN NULL ELSE l.owner END,
        turn = CASE WHEN l.waiters[1] = $3 THEN NULL ELSE l.turn END,
        (waiters, alive) = {without}
    -- One behind takes the row's lock, too: whoever brings it near the head meanwhile is waited for.
    WHERE name = $1 AND (l.owner = $2 OR $3 = ANY (l.waiters) OR l.far IS NOT NULL)
    RETURNING {short} AS short, CASE
        WHEN (owner IS NULL OR expires_2 <= {now} OR {reader_next}) AND waiters[1] IS NOT NULL THEN {tell_first}
    END AS told
),
forgotten AS (
    DELETE FROM {places} WHERE name = $1
        -- guard: leave-behind
        AND owner = $2
)
SELECT * FROM gone
