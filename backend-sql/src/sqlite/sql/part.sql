-- Removes the reader ?2 from those who share ?1. The last reader then holds the lock alone, and must release it. ?3 now,
-- ?4 epoch.
UPDATE {locks} SET
    owner = CASE WHEN readers = ?2 || ',' THEN ?2 ELSE owner END,
    readers = nullif(replace(readers, ?2 || ',', ''), ''),
    version = version + 1
WHERE name = ?1 AND instr(readers, ?2) AND (epoch <> ?4 OR expires > ?3)
RETURNING owner
