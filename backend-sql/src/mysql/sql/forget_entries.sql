-- Deletes the entries at the positions ?1, a JSON array.
DELETE {queue} FROM JSON_TABLE(?1, '$[*]' COLUMNS (position BIGINT PATH '$')) AS g
STRAIGHT_JOIN {queue} ON {queue}.position = g.position
