-- First step of a sweep: free names, at most ?1, that have no tombstones and that nobody waits for.
SELECT HEX(name), token FROM {locks}
WHERE expires <= {now} AND {no_tombstones} AND name NOT IN (SELECT q.name FROM {queue} AS q WHERE {alive})
LIMIT ?1
