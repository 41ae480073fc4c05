-- Makes a free row for ?1, if there is none.
INSERT INTO {lock} (name, lock_until, locked_at, locked_by)
VALUES (?1, '2000-01-01 00:00:00', '2000-01-01 00:00:00', '00000000000000000000000000000000')
ON DUPLICATE KEY UPDATE locked_by = locked_by
