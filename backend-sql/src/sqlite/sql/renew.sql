-- Renews a batch. ?1 now, ?2 epoch, ?3 a JSON array of [name, owner, lease]. No lease exceeds the longest lease, which
-- may have been lowered since the grant. The batch may arrive after one that was sent later, so it never shortens a
-- lease, neither `expires` nor `lease`, by which other clocks count. Answers which owners were renewed, and the longest
-- lease in ms.
UPDATE {locks} AS l SET
    lease = CASE WHEN l.epoch = ?2 THEN max(l.expires - ?1, g.lease) ELSE g.lease END,
    epoch = ?2, version = version + 1,
    expires = CASE WHEN l.epoch = ?2 THEN max(l.expires, ?1 + g.lease) ELSE ?1 + g.lease END
FROM (
    SELECT value ->> 0 AS name, value ->> 1 AS owner, min(
        -- guard: renew-longest
        s.longest_lease * 1000000,
        value ->> 2) AS lease
    FROM json_each(?3), {settings} AS s
) AS g
WHERE l.name = g.name AND l.owner = g.owner AND NOT l.kept
-- guard: renew-expired
AND (l.epoch <> ?2 OR l.expires > ?1)
RETURNING owner, (SELECT longest_lease FROM {settings})
