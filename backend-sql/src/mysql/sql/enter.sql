-- Adds the entry of the owner ?2 to the end of the queue of ?1. If it is already there, this is its heartbeat. The entry of an
-- abandoned owner stays dead.
INSERT INTO {queue} (name, owner, heard) VALUES (?1, ?2, {now})
ON DUPLICATE KEY UPDATE
    -- guard: enter-abandoned
    heard = IF(heard < 0, heard, {now})
