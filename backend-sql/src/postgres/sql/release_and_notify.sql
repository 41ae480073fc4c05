-- Releases $1 if it is $2's, and notifies the first waiter. The row stays, since it keeps the token. Answers the version,
-- and whether entries should move from the tail of the queue to its head.
UPDATE {locks} AS l SET owner = NULL
WHERE name = $1 AND owner = $2 AND expires > {now}
RETURNING version, {short}, CASE WHEN waiters[1] IS NOT NULL THEN {notify_first} END
