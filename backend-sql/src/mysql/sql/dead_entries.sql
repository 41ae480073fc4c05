-- Entries without a heartbeat, at most ?1, that nobody else has locked: their processes have ended. Those of abandoned owners
-- stay for an hour. forget_entries.sql deletes them in the same transaction.
SELECT CAST(position AS CHAR) FROM {queue} AS q
WHERE (q.heard > 0 AND NOT ({alive})) OR (q.heard < 0 AND q.heard > {remembered} - {now})
LIMIT ?1
FOR UPDATE SKIP LOCKED
