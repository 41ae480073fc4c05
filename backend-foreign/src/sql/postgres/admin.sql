-- What operators and clients look at and change.

-- name: read(name)
-- The state of $name.
SELECT l.name::text, l.locked_by::text, {left}, c.owner, c.label, c.token
FROM {lock} AS l LEFT JOIN {companion} AS c ON c.name = $name WHERE l.name::text = $name

-- name: list(after, most)
-- Held names after $after, at most $most, in order.
SELECT l.name::text, l.locked_by::text, {left}, c.owner, c.label, c.token
FROM {lock} AS l LEFT JOIN {companion} AS c ON c.name = l.name::text
WHERE l.lock_until > {utc} AND l.name::text COLLATE "C" > $after
ORDER BY l.name::text COLLATE "C" LIMIT $most

-- name: last_foreign_holder
-- How many microseconds ago a client of ShedLock was last seen; NULL if none ever was.
SELECT (pg_catalog.date_part('epoch', {utc} - pg_catalog.max(l.locked_at)) * 1000000::double precision)::bigint
FROM {lock} AS l
-- guard: foreign-holder | operation | only_leasehold_locks_in_a_listing
WHERE l.locked_by::text !~ '^[0-9a-f]{32}( released){0,1}$'

-- name: force_release(name)
-- Frees $name of any holder.
UPDATE {lock} SET lock_until = {utc} WHERE name::text = $name
    -- guard: force-held | S4 | force_of_a_free_name
    AND lock_until > {utc}
RETURNING 1::bigint

-- name: repair_token(name)
-- Replaces a token that is invalid, or above which no token is left, by the highest that a
-- leasehold grant may have.
UPDATE {companion} AS c SET token = {micros} + (SELECT s.longest_lease FROM {store} AS s)
WHERE c.name = $name
    -- guard: repair-bad | S2 | a_token_over_a_force
    AND c.token NOT BETWEEN 0 AND 9007199254740990
RETURNING 1::bigint

-- name: settings
SELECT version, longest_lease, identity FROM {store} WHERE id = 1

-- name: set_longest_lease(longest)
UPDATE {store} SET longest_lease = $longest WHERE id = 1
RETURNING 1::bigint

-- name: highest_token
SELECT coalesce(pg_catalog.max(token), 0) FROM {companion}

-- name: clock
-- The server's clock.
SELECT {micros}

-- name: durability
-- The settings that determine whether a crash may lose committed data.
SELECT name::text, setting::text FROM pg_catalog.pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')
