-- What is known of ?1. ?2 epoch.
SELECT l.name, owner, label, l.token, l.version, kept, lease, expires, l.epoch, until
FROM {locks} AS l LEFT JOIN {seen} AS s ON {sighting ?2}
WHERE l.name = ?1
