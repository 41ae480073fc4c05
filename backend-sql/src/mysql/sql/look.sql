-- What is known of ?1 by the owner ?2, or by nobody if that is null. `ahead` is how many live places go first, but no more than
-- matter; `placed`, whether ?2 has a place, which may be dead.
SELECT name, IF({has_reader}, SUBSTR(readers, LOCATE(?2, readers), 32), owner) AS owner, {readers}, label, token, version, kept, GREATEST(expires_2, {now}) - {now} AS remaining,
    IF(?2 IS NULL, (SELECT COUNT(*) FROM {queue} AS q WHERE q.name = ?1 AND {alive}), NULL) AS waiting,
    (SELECT COUNT(*) FROM (
        SELECT 1 FROM {queue} AS q WHERE q.name = ?1 AND {alive} AND q.position < IFNULL(
            (SELECT m.position FROM {queue} AS m WHERE m.name = ?1 AND m.owner = ?2), 9223372036854775807
        )
        LIMIT {far}
    ) AS before_it) AS ahead,
    EXISTS(SELECT 1 FROM {queue} AS q WHERE q.name = ?1 AND q.owner = ?2 AND q.heard > 0) AS placed
FROM {locks} WHERE name = ?1
