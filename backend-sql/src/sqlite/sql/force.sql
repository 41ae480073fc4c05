-- Frees ?1 whatever owner has it. ?2 now, ?3 epoch.
UPDATE {locks} AS l SET owner = NULL, label = NULL, version = version + 1
WHERE name = ?1 AND owner IS NOT NULL AND NOT {over ?2 ?3}
RETURNING version
