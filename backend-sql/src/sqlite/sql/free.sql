-- Whether ?1 is worth asking for. ?2 now, ?3 epoch.
SELECT NOT EXISTS (
    SELECT 1 FROM {locks} AS l WHERE name = ?1 AND owner IS NOT NULL AND NOT {over ?2 ?3}
) AS free
