-- Renews a batch. ?1 now, ?2 epoch, ?3 a JSON array of [name, owner, lease].
UPDATE {locks} AS l SET
    lease = g.lease, expires = ?1 + g.lease, epoch = ?2, version = version + 1
FROM (SELECT value ->> 0 AS name, value ->> 1 AS owner, value ->> 2 AS lease FROM json_each(?3)) AS g
WHERE l.name = g.name AND l.owner = g.owner AND (l.epoch <> ?2 OR l.expires > ?1)
RETURNING owner
