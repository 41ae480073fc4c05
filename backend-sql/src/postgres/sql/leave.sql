-- Removes the entry $3 from the queue of $1, and takes away what its owner $2 was granted. If that leaves the lock free,
-- notifies the next entry. Answers whether entries should move from the tail of the queue to its head.
WITH gone AS (
    UPDATE {locks} AS l SET
        owner = CASE WHEN l.owner = $2 THEN NULL ELSE l.owner END,
        turn = CASE WHEN l.waiters[1] = $3 THEN NULL ELSE l.turn END,
        (waiters, alive) = {without}
    -- An entry in the tail locks the row, too, so that it waits for a statement that is moving it to the head.
    WHERE name = $1 AND (l.owner = $2 OR $3 = ANY (l.waiters) OR l.far IS NOT NULL)
    RETURNING {short} AS short, CASE
        WHEN (owner IS NULL OR expires <= {now} OR {reader_next}) AND waiters[1] IS NOT NULL THEN {notify_first}
    END AS notified
),
forgotten AS (
    DELETE FROM {queue} WHERE name = $1
        -- guard: leave-behind
        AND owner = $2
)
SELECT * FROM gone
