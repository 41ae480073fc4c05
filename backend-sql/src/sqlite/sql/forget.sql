-- Deletes the records of abandoned owners of which no statement can still be under way: those before ?1 in this epoch ?2.
-- The clock of another epoch says nothing here, since that epoch is over or belongs to another time namespace. Its
-- records are deleted on the second day after theirs; ?3 is today.
DELETE FROM {abandoned} WHERE (epoch = ?2 AND at < ?1) OR (epoch <> ?2 AND day < ?3 - 1)
