-- Reads the row of ?1, for the owner ?2 or, if that is null, for an operator. `ahead` is how many live entries come first, up to
-- a limit beyond which the number makes no difference. A dead entry of ?2 counts as none in behind.sql, but keeps its position here:
-- its heartbeat comes first. `queued`: whether ?2 has an entry, maybe a dead one.
SELECT name, IF({has_reader}, SUBSTR(readers, LOCATE(?2, readers), 32), owner) AS owner, {readers}, label, token, version, kept, GREATEST(expires, {now}) - {now} AS remaining,
    IF(?2 IS NULL, (SELECT COUNT(*) FROM {queue} AS q WHERE q.name = ?1 AND {alive}), NULL) AS waiting,
    (SELECT COUNT(*) FROM (
        SELECT 1 FROM {queue} AS q WHERE q.name = ?1 AND {alive} AND q.position < IFNULL(
            (SELECT m.position FROM {queue} AS m WHERE m.name = ?1 AND m.owner = ?2), 9223372036854775807
        )
        LIMIT {far}
    ) AS before_it) AS ahead,
    EXISTS(SELECT 1 FROM {queue} AS q WHERE q.name = ?1 AND q.owner = ?2 AND q.heard > 0) AS queued
FROM {locks} WHERE name = ?1
