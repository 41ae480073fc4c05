-- Held names after $1, at most $2.
SELECT {columns} FROM {locks}
WHERE name > $1 AND owner IS NOT NULL AND expires > {now}
ORDER BY name LIMIT $2
