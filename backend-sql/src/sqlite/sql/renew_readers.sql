-- Renews a batch of readers, of which several may share a lock. Otherwise as renew.sql, with the same arguments and
-- answer.
UPDATE {locks} AS l SET
    lease = CASE WHEN l.epoch = ?2 THEN max(l.expires - ?1, g.lease) ELSE max(l.lease, g.lease) END,
    epoch = ?2, version = version + 1,
    expires = CASE WHEN l.epoch = ?2 THEN max(l.expires, ?1 + g.lease) ELSE ?1 + max(l.lease, g.lease) END
FROM (
    SELECT r.name, min(s.longest_lease * 1000000, max(value ->> 2)) AS lease
    FROM json_each(?3), {settings} AS s, {locks} AS r
    WHERE r.name = value ->> 0
        -- guard: renew-reader
        AND instr(r.readers, value ->> 1)
    GROUP BY r.name
) AS g
WHERE l.name = g.name
-- guard: renew-readers-expired
AND (l.epoch <> ?2 OR l.expires > ?1)
RETURNING (
    SELECT json_group_array(value ->> 1) FROM json_each(?3) WHERE value ->> 0 = name AND instr(readers, value ->> 1)
), (SELECT longest_lease FROM {settings})
