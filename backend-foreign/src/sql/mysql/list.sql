-- Held names after ?1, at most ?2, in order.
SELECT n.name, n.locked_by, n.remaining, c.owner, c.label, c.token
FROM (
    SELECT CAST(CONVERT(l.name USING utf8mb4) AS BINARY) AS name, CONVERT(l.locked_by USING utf8mb4) AS locked_by,
        {left} AS remaining
    FROM {lock} AS l WHERE l.lock_until > {utc}
) AS n LEFT JOIN {companion} AS c ON c.name = n.name
WHERE n.name > CAST(?1 AS BINARY) ORDER BY n.name LIMIT ?2
