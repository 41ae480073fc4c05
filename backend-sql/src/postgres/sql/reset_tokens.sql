-- Sets tokens that lead the clock by more than $1 microseconds back to the clock; no grant of ours has such a token.
-- Skips rows that others have locked, so that no renewal waits. Answers whether any row was skipped.
WITH ahead AS (
    SELECT name, {micros} AS clock FROM {locks} WHERE token > {micros} + $1
),
free AS (
    SELECT name FROM {locks} WHERE name IN (SELECT name FROM ahead) FOR UPDATE SKIP LOCKED
),
lowered AS (
    UPDATE {locks} AS l SET token = ahead.clock
    FROM free JOIN ahead ON ahead.name = free.name WHERE l.name = free.name
    RETURNING 1
)
SELECT (SELECT pg_catalog.count(*) FROM ahead) > (SELECT pg_catalog.count(*) FROM lowered)
