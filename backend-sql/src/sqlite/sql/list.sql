-- Held names after ?1, at most ?4. ?2 now, ?3 epoch.
SELECT name, owner, label, token, version, lease, expires, epoch FROM {locks}
WHERE name > ?1 AND owner IS NOT NULL AND (epoch <> ?3 OR expires > ?2)
ORDER BY name LIMIT ?4
