-- Frees ?1 whatever owner has it.
UPDATE {locks} SET expires = 0, version = LAST_INSERT_ID(version + 1)
WHERE name = ?1 AND expires > {now}
