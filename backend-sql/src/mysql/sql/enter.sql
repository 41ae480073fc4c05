-- The place of ?2 for ?1: at the end of the queue, or where it is already; it is heard of. That of an abandoned owner stays
-- dead.
INSERT INTO {queue} (name, owner, heard) VALUES (?1, ?2, {now})
ON DUPLICATE KEY UPDATE
    -- guard: enter-abandoned
    heard = IF(heard < 0, heard, {now})
