-- Takes $1 away from $2, whether it has it or is about to: an attempt that was read before its
-- tombstone waits for the row's lock, and this statement waits behind it, since it asks for the lock
-- whoever the owner is.
UPDATE {locks} SET
    version = version + CASE WHEN owner = $2 THEN 1 ELSE 0 END,
    label = CASE WHEN owner = $2 THEN NULL ELSE label END,
    owner = CASE WHEN owner = $2 THEN NULL ELSE owner END
WHERE name = $1
