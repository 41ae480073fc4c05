-- No attempt of ?1 may succeed any more. ?2 seconds of the wall clock.
INSERT INTO {abandoned} (owner, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING
