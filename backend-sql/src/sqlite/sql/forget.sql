-- Forgets abandoned owners that no statement can be under way for: those of before ?1, in this epoch
-- ?2. Another epoch's clock says nothing here. It is over, or of another time namespace: they go on
-- the second day after theirs, ?3 being today.
DELETE FROM {abandoned} WHERE (epoch = ?2 AND at < ?1) OR (epoch <> ?2 AND day < ?3 - 1)
