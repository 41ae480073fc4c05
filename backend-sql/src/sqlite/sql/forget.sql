-- Forgets abandoned owners that no statement can be under way for. ?1 seconds of the wall clock.
DELETE FROM {abandoned} WHERE at < ?1
