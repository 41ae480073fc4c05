-- Held names after ?1, at most ?2.
SELECT name, owner, label, token, version, kept, GREATEST(expires - {now}, 0) AS remaining
FROM {locks} WHERE name > ?1 AND expires > {now}
ORDER BY name LIMIT ?2
