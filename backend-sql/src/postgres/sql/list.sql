-- Held names after $1, at most $2.
SELECT {columns}, {waiting} FROM {locks} AS l
WHERE name > $1 AND owner IS NOT NULL AND expires > {now}
ORDER BY name LIMIT $2
