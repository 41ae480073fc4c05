-- The state of $1.
SELECT l.name::text, l.locked_by::text, {left}, c.owner, c.label, c.token
FROM {lock} AS l LEFT JOIN {companion} AS c ON c.name = $1 WHERE l.name::text = $1
