-- The abandoned owner ?2 has no place for ?1, and never will.
INSERT INTO {queue} (name, owner, heard) VALUES (?1, ?2, -{now}) ON DUPLICATE KEY UPDATE heard = -{now}
