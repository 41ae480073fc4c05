-- Frees $1 whatever owner has it, and tells the first who waits.
UPDATE {locks} SET owner = NULL
WHERE name = $1 AND owner IS NOT NULL AND expires > {now}
RETURNING version, CASE WHEN waiters IS NOT NULL THEN {tell_first} END
