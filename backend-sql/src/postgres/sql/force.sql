-- Frees $1 whoever has it.
UPDATE {locks} SET owner = NULL, label = NULL, version = version + 1
WHERE name = $1 AND owner IS NOT NULL AND expires > {now}
RETURNING version
