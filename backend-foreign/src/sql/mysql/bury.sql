-- No attempt of ?2 at ?1 may succeed any more. No more than a thousand such owners are remembered.
INSERT INTO {companion} (name, token, buried)
-- guard: bury-new
VALUES (?1, 0, CONCAT(?2, ','))
ON DUPLICATE KEY UPDATE
    -- guard: bury-others
    buried = LEFT(CONCAT(?2, ',', COALESCE(buried, '')), 33000)
