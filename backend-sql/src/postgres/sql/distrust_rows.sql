-- Removes from all rows the proof that no data was lost (see retake.sql), while nothing is granted. Skips rows that
-- others have locked, so that no renewal waits. Answers whether any row was skipped.
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
