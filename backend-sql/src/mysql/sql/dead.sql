-- First step of a sweep: free names, at most ?1.
SELECT name, owner, label, token, version, 0 AS remaining FROM {locks}
WHERE expires <= {now} LIMIT ?1
