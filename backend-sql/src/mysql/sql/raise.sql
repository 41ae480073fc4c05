-- Lifts the token of ?1 to ?3 if it is ?2's.
UPDATE {locks} SET token = GREATEST(token, ?3), version = LAST_INSERT_ID(version + 1)
WHERE name = ?1 AND (owner = ?2 OR {has_reader}) AND expires > {now}
