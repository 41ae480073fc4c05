-- Removes the reader $2 from those who share $1. The last reader then holds the lock alone, and must release it. Answers
-- whether others are left.
UPDATE {locks} AS l SET
    owner = CASE WHEN pg_catalog.length(l.readers) = {reader} THEN $2 ELSE l.owner END,
    readers = nullif(pg_catalog.replace(l.readers, pg_catalog.concat($2, ','), ''), '')
WHERE name = $1 AND {is_reader} AND l.expires > {now}
RETURNING l.owner = {shared}
