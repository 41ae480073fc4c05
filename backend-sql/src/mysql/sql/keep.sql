-- Lets ?1 run out in ?3 if it is ?2's.
UPDATE {locks} SET expires = {now} + ?3, kept = 1, version = LAST_INSERT_ID(version + 1)
WHERE name = ?1 AND owner = ?2 AND expires > {now}
