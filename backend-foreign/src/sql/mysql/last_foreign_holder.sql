-- How many microseconds ago a client of ShedLock was last seen; NULL if none ever was.
SELECT TIMESTAMPDIFF(MICROSECOND, MAX(l.locked_at), {utc})
FROM {lock} AS l
-- guard: foreign-holder
WHERE l.locked_by NOT REGEXP '^[0-9a-f]{32}( released){0,1}$'
