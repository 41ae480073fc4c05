-- Last step: forgets the names of ?1, a JSON array of [name in hexadecimal digits], that are still free
-- and whose tokens the watermark ?2 covers.
DELETE l FROM {batch} STRAIGHT_JOIN {locks} AS l ON l.name = UNHEX(g.name)
WHERE l.expires <= {now} AND l.token <= ?2
