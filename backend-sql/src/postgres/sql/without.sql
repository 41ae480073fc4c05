(
    SELECT
        CASE WHEN l.far IS NULL THEN q.entries ELSE coalesce(q.entries, ARRAY[]::text[]) END,
        CASE WHEN l.far IS NULL THEN q.alive ELSE coalesce(q.alive, ARRAY[]::timestamptz[]) END
    FROM (
        SELECT pg_catalog.array_agg(p.entry ORDER BY p.at) AS entries, pg_catalog.array_agg(p.alive ORDER BY p.at) AS alive
        FROM unnest(l.waiters, l.alive) WITH ORDINALITY AS p (entry, alive, at)
        WHERE pg_catalog.left(p.entry, 32) <> $2
    ) AS q
)
