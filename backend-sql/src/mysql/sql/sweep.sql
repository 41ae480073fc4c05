-- Last step: forgets the names of ?1, a JSON array of [name in hexadecimal digits], that are still free
-- and whose tokens the watermark ?2 covers.
DELETE {locks} FROM {batch} STRAIGHT_JOIN {locks} ON {locks}.name = UNHEX(g.name)
WHERE {locks}.expires_2 <= {now} AND {locks}.token <= ?2 AND {no_tombstones}
