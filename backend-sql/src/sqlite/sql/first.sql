-- The entry to wake if ?1 is free, or free for readers: the first live one, and its bell if it has one. No row if the
-- lock is held. ?2 now, ?3 epoch, ?4 wall clock in µs.
SELECT owner, bell FROM (SELECT * FROM {queue} AS q
WHERE q.name = ?1 AND {alive ?2 ?3 ?4} ORDER BY q.position LIMIT 1) AS q
WHERE NOT EXISTS (SELECT 1 FROM {locks} AS l WHERE l.name = ?1 AND l.owner IS NOT NULL AND NOT {over ?2 ?3}
        AND NOT (q.shared AND l.readers IS NOT NULL))
