-- Takes the lock ?1 away from the abandoned owner ?2. A lock that was released, and is kept for a minimum hold, stays. ?3
-- now, ?4 epoch.
UPDATE {locks} SET owner = NULL, label = NULL, version = version + 1
WHERE name = ?1
-- guard: abandon-kept
AND NOT kept
AND owner = ?2 AND (epoch <> ?4 OR expires > ?3)
RETURNING version
