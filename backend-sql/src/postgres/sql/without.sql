(
    SELECT
        CASE WHEN l.far IS NULL THEN q.places ELSE coalesce(q.places, ARRAY[]::text[]) END,
        CASE WHEN l.far IS NULL THEN q.alive ELSE coalesce(q.alive, ARRAY[]::timestamptz[]) END
    FROM (
        SELECT pg_catalog.array_agg(p.place ORDER BY p.at) AS places, pg_catalog.array_agg(p.alive ORDER BY p.at) AS alive
        FROM unnest(l.waiters, l.alive) WITH ORDINALITY AS p (place, alive, at)
        WHERE pg_catalog.left(p.place, 32) <> $2
    ) AS q
)
