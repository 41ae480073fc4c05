-- Held names after ?1, at most ?4. ?2 now, ?3 epoch.
SELECT l.name, owner, label, l.token, l.version, kept, lease, expires, l.epoch, until
FROM {locks} AS l LEFT JOIN {seen} AS s ON {sighting ?3}
WHERE l.name > ?1 AND owner IS NOT NULL AND NOT {over ?2 ?3}
ORDER BY l.name LIMIT ?4
