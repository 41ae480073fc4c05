-- Whether ?1 is worth asking for. ?2 now, ?3 epoch.
SELECT NOT EXISTS (
    SELECT 1 FROM {locks} WHERE name = ?1 AND owner IS NOT NULL AND (epoch <> ?3 OR expires > ?2)
) AS free
