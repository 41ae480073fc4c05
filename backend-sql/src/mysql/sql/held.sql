-- Which of the names ?1, a JSON array of [name in hexadecimal digits], are not worth asking for.
SELECT l.name FROM {batch} STRAIGHT_JOIN {locks} AS l ON l.name = UNHEX(g.name)
WHERE l.expires > {now}
