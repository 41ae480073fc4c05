-- Renews a batch: ?1 is a JSON array of [name in hexadecimal digits, owner, lease]. Each row is found
-- by its key, and no other is locked. A batch may be carried out after one that was sent later: it
-- never shortens. The insert id of the answer is the clock of this statement, for renewed.sql. The version
-- makes every row that was found a changed one, however the driver has them counted.
UPDATE {batch} STRAIGHT_JOIN {locks} AS l ON l.name = UNHEX(g.name) AND l.owner = g.owner
SET l.expires = GREATEST(l.expires, LAST_INSERT_ID({now}) + g.lease), l.version = l.version + 1
WHERE l.kept = 0 AND l.expires > {now}
