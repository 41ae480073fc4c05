-- Deletes the entry of ?2 in the queue of ?1.
DELETE FROM {queue} WHERE name = ?1
    -- guard: leave-owner
    AND owner = ?2
