-- Whether ?1 is worth asking for.
SELECT NOT EXISTS (SELECT 1 FROM {locks} WHERE name = ?1 AND expires > {now})
