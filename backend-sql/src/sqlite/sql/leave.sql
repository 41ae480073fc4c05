-- Gives up the place of ?2 for ?1.
DELETE FROM {queue} WHERE name = ?1
    -- guard: leave-owner
    AND owner = ?2
