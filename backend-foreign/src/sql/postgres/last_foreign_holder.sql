-- How many microseconds ago a client of ShedLock was last seen; NULL if none ever was.
SELECT (pg_catalog.date_part('epoch', {utc} - pg_catalog.max(l.locked_at)) * 1000000::double precision)::bigint
FROM {lock} AS l
-- guard: foreign-holder
WHERE l.locked_by::text !~ '^[0-9a-f]{32}( released){0,1}$'
