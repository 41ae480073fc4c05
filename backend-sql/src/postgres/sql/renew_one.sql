-- Renews $1 for $3 if it is $2's, and waits for its row. It may be carried out after one that was sent later: it
-- never shortens.
UPDATE {locks} AS l SET expires = greatest(l.expires, {now} + $3)
WHERE name = $1 AND owner = $2 AND NOT l.kept AND l.expires > {now}
RETURNING version
