-- First step of a sweep: free names, at most ?1, that keep no ghost away.
SELECT name, owner, label, token, version, kept, 0 AS remaining FROM {locks}
WHERE expires <= {now} AND {no_ghosts} LIMIT ?1
