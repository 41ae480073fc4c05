-- Held names after ?1, in hexadecimal digits, at most ?4. ?2 now, ?3 epoch.
SELECT hex(l.name) AS place, l.name, owner, label, l.token, l.version, kept, lease, expires, l.epoch, until
FROM {locks} AS l LEFT JOIN {seen} AS s ON {sighting ?3}
WHERE l.name > CAST(unhex(?1) AS TEXT) AND owner IS NOT NULL AND NOT {over ?2 ?3}
ORDER BY l.name LIMIT ?4
