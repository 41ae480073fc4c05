-- Gives $1 back if it is $2's, and tells the first who waits. The row stays for its token.
UPDATE {locks} SET owner = NULL
WHERE name = $1 AND owner = $2 AND expires > {now}
RETURNING version, CASE WHEN waiters IS NOT NULL THEN {tell_first} END
