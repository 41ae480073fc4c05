-- Leaves a tombstone: no attempt of $2 to acquire $1 may succeed any more. At most a thousand such owners are remembered.
INSERT INTO {companion} AS c (name, token, buried)
-- guard: tombstone-new
VALUES ($1, 0, $2 || ',')
ON CONFLICT (name) DO UPDATE SET
    -- guard: tombstone-others
    buried = pg_catalog.left(pg_catalog.concat($2::text, ',', c.buried), 33000)
RETURNING 1::bigint
