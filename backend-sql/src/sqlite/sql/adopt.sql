-- A row of another boot or machine counts as held for its whole lease from when it is first seen:
-- which is now. ?1 name, ?2 now, ?3 epoch, ?4 the version that was seen. A holder in another time
-- namespace of this machine may have renewed since ?2 was read: then it is left to the next look.
UPDATE {locks} SET expires = ?2 + lease, epoch = ?3, version = version + 1
WHERE name = ?1 AND owner IS NOT NULL AND epoch <> ?3 AND version = ?4
