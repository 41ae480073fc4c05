-- Entries without a heartbeat, at most ?1: their processes have ended. Those of abandoned owners stay for an hour.
SELECT position FROM {queue}
WHERE (heard > 0 AND heard <= {now} - {life}) OR (heard < 0 AND heard > {remembered} - {now})
LIMIT ?1
