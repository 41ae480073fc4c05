-- No attempt of $2 at $1 may succeed any more. No more than a thousand such owners are remembered.
INSERT INTO {companion} AS c (name, token, buried)
-- guard: bury-new
VALUES ($1, 0, $2 || ',')
ON CONFLICT (name) DO UPDATE SET
    -- guard: bury-others
    buried = pg_catalog.left(pg_catalog.concat($2::text, ',', c.buried), 33000)
RETURNING 1::bigint
