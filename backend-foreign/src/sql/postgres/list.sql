-- Held names after $1, at most $2, in order.
SELECT l.name::text, l.locked_by::text, {left}, c.owner, c.label, c.token
FROM {lock} AS l LEFT JOIN {companion} AS c ON c.name = l.name::text
WHERE l.lock_until > {utc} AND l.name::text COLLATE "C" > $1
ORDER BY l.name::text COLLATE "C" LIMIT $2
