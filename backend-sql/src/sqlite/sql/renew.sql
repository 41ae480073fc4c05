-- Renews a batch. ?1 now, ?2 epoch, ?3 a JSON array of [name, owner, lease]. A batch may be carried
-- out after one that was sent later: it never shortens, nor the lease, by which other clocks count.
UPDATE {locks} AS l SET
    lease = CASE WHEN l.epoch = ?2 THEN max(l.expires - ?1, g.lease) ELSE g.lease END,
    epoch = ?2, version = version + 1,
    expires = CASE WHEN l.epoch = ?2 THEN max(l.expires, ?1 + g.lease) ELSE ?1 + g.lease END
FROM (SELECT value ->> 0 AS name, value ->> 1 AS owner, value ->> 2 AS lease FROM json_each(?3)) AS g
WHERE l.name = g.name AND l.owner = g.owner AND NOT l.kept AND (l.epoch <> ?2 OR l.expires > ?1)
RETURNING owner
