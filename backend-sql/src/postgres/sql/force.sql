-- Frees $1 whatever owner has it, and tells the first who waits.
UPDATE {locks} SET owner = NULL
WHERE name = $1 AND owner IS NOT NULL AND expires_2 > {now}
RETURNING version, CASE WHEN waiters[1] IS NOT NULL THEN {tell_first} END
