-- While nothing is granted, no row is proof that nothing was lost: see retake.sql. Rows that others have locked are left
-- alone, so that no renewal waits. Answers whether any is left.
WITH trusted AS (
    SELECT name FROM {locks} WHERE store IS NOT NULL
        AND EXISTS (SELECT 1 FROM {marker} WHERE grants_from > {now})
),
free AS (
    SELECT name FROM {locks} WHERE name IN (SELECT name FROM trusted) FOR UPDATE SKIP LOCKED
),
doubted AS (
    UPDATE {locks} AS l SET store = NULL FROM free WHERE l.name = free.name
    RETURNING 1
)
SELECT (SELECT pg_catalog.count(*) FROM trusted) > (SELECT pg_catalog.count(*) FROM doubted)
