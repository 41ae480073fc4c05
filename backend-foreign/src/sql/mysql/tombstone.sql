-- Leaves a tombstone: no attempt of ?2 to acquire ?1 may succeed any more. At most a thousand such owners are remembered.
INSERT INTO {companion} (name, token, buried)
-- guard: tombstone-new
VALUES (?1, 0, CONCAT(?2, ','))
ON DUPLICATE KEY UPDATE
    -- guard: tombstone-others
    buried = LEFT(CONCAT(?2, ',', COALESCE(buried, '')), 33000)
