-- Held names after ?1, in hexadecimal digits, at most ?5. ?2 now, ?3 epoch, ?4 wall clock in µs.
SELECT hex(l.name) AS position, l.name, l.owner, length(l.readers) AS readers, l.label, l.token, l.version,
    kept, lease, expires, l.epoch, until, 0 AS before,
    (SELECT count(*) FROM {queue} AS q WHERE q.name = l.name AND {alive ?2 ?3 ?4}) AS waiting
FROM {locks} AS l LEFT JOIN {seen} AS s ON {sighting ?3}
WHERE l.name > CAST(unhex(?1) AS TEXT) AND l.owner IS NOT NULL AND NOT {over ?2 ?3}
ORDER BY l.name LIMIT ?5
