-- Deletes the entries at the positions ?1, a JSON array, unless they have had a heartbeat since, or somebody else has locked
-- them.
DELETE {queue} FROM (
    SELECT q.position FROM JSON_TABLE(?1, '$[*]' COLUMNS (position BIGINT PATH '$')) AS g
    STRAIGHT_JOIN {queue} AS q ON q.position = g.position
    WHERE NOT ({alive})
    LIMIT 1000000
    FOR UPDATE SKIP LOCKED
) AS dead STRAIGHT_JOIN {queue} ON {queue}.position = dead.position
