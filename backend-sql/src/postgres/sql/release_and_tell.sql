-- Gives $1 back if it is $2's, and tells the first who waits. The row stays for its token. Answers the version, and whether
-- places behind are to be brought near the head.
UPDATE {locks} AS l SET owner = NULL
WHERE name = $1 AND owner = $2 AND expires_2 > {now}
RETURNING version, {short}, CASE WHEN waiters[1] IS NOT NULL THEN {tell_first} END
