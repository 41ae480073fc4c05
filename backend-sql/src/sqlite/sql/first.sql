-- Whom to tell that ?1 is free: the first live place, if it has a bell. No row where the lock is held.
-- ?2 now, ?3 epoch, ?4 wall clock in µs.
SELECT q.owner, q.bell FROM {queue} AS q
WHERE q.name = ?1 AND {alive ?2 ?3 ?4}
    AND NOT EXISTS (SELECT 1 FROM {locks} AS l WHERE l.name = ?1 AND l.owner IS NOT NULL AND NOT {over ?2 ?3})
ORDER BY q.position LIMIT 1
