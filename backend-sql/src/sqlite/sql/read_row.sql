-- Reads the row of ?1, for the owner ?2 or, if that is null, for an operator. ?3 now, ?4 epoch, ?5 wall clock in µs.
-- `before` is how many live entries come first, up to a limit beyond which the number makes no difference. A dead entry of ?2
-- counts as none in behind.sql, but keeps its position here: its heartbeat comes first.
SELECT l.name, CASE WHEN instr(l.readers, ?2) THEN ?2 ELSE l.owner END AS owner, length(l.readers) AS readers, l.label, l.token, l.version, kept, lease, expires, l.epoch, until,
    CASE WHEN ?2 IS NULL THEN
        (SELECT count(*) FROM {queue} AS q WHERE q.name = l.name AND {alive ?3 ?4 ?5})
    END AS waiting,
    (SELECT count(*) FROM (
        SELECT 1 FROM {queue} AS q WHERE q.name = ?1 AND q.position < coalesce(
            (SELECT m.position FROM {queue} AS m WHERE m.name = ?1 AND m.owner = ?2), 9223372036854775807
        ) AND {alive ?3 ?4 ?5}
        LIMIT {far}
    )) AS before
FROM {locks} AS l LEFT JOIN {seen} AS s ON {sighting ?4}
WHERE l.name = ?1
