-- For how many microseconds no client of ShedLock was seen; no number where none ever was.
SELECT TIMESTAMPDIFF(MICROSECOND, MAX(l.locked_at), {utc})
FROM {lock} AS l
-- guard: theirs
WHERE l.locked_by NOT REGEXP '^[0-9a-f]{32}( released){0,1}$'
