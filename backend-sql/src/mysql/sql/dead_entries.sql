-- Entries without a heartbeat, at most ?1: their processes have ended. Those of abandoned owners stay for an hour.
SELECT q.position FROM {queue} AS q
WHERE (q.heard > 0 AND NOT ({alive})) OR (q.heard < 0 AND q.heard > {remembered} - {now})
LIMIT ?1
