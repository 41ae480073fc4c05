-- Bars the owner ?1: no attempt of it succeeds any more. ?2 now, ?3 epoch, ?4 the day.
INSERT INTO {abandoned} (owner, at, epoch, day) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING
