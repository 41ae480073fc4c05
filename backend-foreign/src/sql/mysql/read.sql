-- The state of ?1.
SELECT CONVERT(l.name USING utf8mb4), CONVERT(l.locked_by USING utf8mb4), {left}, c.owner, c.label, c.token
FROM {lock} AS l LEFT JOIN {companion} AS c ON c.name = ?1 WHERE l.name = ?1
