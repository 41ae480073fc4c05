-- Frees ?1 whoever has it. ?2 now, ?3 epoch.
UPDATE {locks} SET owner = NULL, label = NULL, version = version + 1
WHERE name = ?1 AND owner IS NOT NULL AND (epoch <> ?3 OR expires > ?2)
RETURNING version
