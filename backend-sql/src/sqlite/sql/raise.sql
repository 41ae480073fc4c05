-- Raises the token of ?1 to ?5 if it is ?2's. ?3 now, ?4 epoch.
UPDATE {locks} SET token = max(token, ?5), version = version + 1
WHERE name = ?1 AND (owner = ?2 OR instr(readers, ?2)) AND (epoch <> ?4 OR expires > ?3)
RETURNING version
