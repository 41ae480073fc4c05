-- Lets ?1 expire after ?5 if it is ?2's. ?3 now, ?4 epoch.
UPDATE {locks} SET lease = ?5, expires = ?3 + ?5, epoch = ?4, kept = 1, version = version + 1
WHERE name = ?1 AND owner = ?2 AND (epoch <> ?4 OR expires > ?3)
RETURNING version
