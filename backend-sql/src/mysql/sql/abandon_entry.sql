-- Makes sure that the abandoned owner ?2 has no live entry for ?1, and never will. A negative `heard` marks it.
INSERT INTO {queue} (name, owner, heard) VALUES (?1, ?2, -{now}) ON DUPLICATE KEY UPDATE heard = -{now}
