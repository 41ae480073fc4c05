-- First step of a sweep: free names, at most ?1, that keep no ghost away.
SELECT HEX(name), token FROM {locks}
WHERE expires <= {now} AND {no_ghosts} LIMIT ?1
