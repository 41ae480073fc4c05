-- What operators and clients look at and change.

-- name: read(name)
-- The state of $name.
SELECT CONVERT(l.name USING utf8mb4), CONVERT(l.locked_by USING utf8mb4), {left}, c.owner, c.label, c.token
FROM {lock} AS l LEFT JOIN {companion} AS c ON c.name = $name WHERE l.name = $name

-- name: list(after, most)
-- Held names after $after, at most $most, in order.
SELECT n.name, n.locked_by, n.remaining, c.owner, c.label, c.token
FROM (
    SELECT CAST(CONVERT(l.name USING utf8mb4) AS BINARY) AS name, CONVERT(l.locked_by USING utf8mb4) AS locked_by,
        {left} AS remaining
    FROM {lock} AS l WHERE l.lock_until > {utc}
) AS n LEFT JOIN {companion} AS c ON c.name = n.name
WHERE n.name > CAST($after AS BINARY) ORDER BY n.name LIMIT $most

-- name: last_foreign_holder
-- How many microseconds ago a client of ShedLock was last seen; NULL if none ever was.
SELECT TIMESTAMPDIFF(MICROSECOND, MAX(l.locked_at), {utc})
FROM {lock} AS l
-- guard: foreign-holder | operation | only_leasehold_locks_in_a_listing
WHERE l.locked_by NOT REGEXP '^[0-9a-f]{32}( released){0,1}$'

-- name: force_release(name)
-- Frees $name of any holder. Sets `lock_until` to an hour ago, as `release` does.
UPDATE {lock} SET
    -- guard: force-past | S5 | a_renewal_of_what_was_freed | lock_until = UTC_TIMESTAMP(6)
    lock_until = {utc} - INTERVAL 1 HOUR
WHERE name = $name
    -- guard: force-held | S4 | force_of_a_free_name
    AND lock_until > {utc}

-- name: repair_token(name)
-- Replaces a token that is invalid, or above which no token is left, by the highest that a
-- leasehold grant may have.
UPDATE {companion} SET token = {now} + (SELECT s.longest_lease FROM {store} AS s)
WHERE name = $name
    -- guard: repair-bad | S2 | a_token_over_a_force
    AND token NOT BETWEEN 0 AND 9007199254740990

-- name: settings
-- The settings, and whether each statement of this session is its own transaction.
SELECT version, longest_lease, identity, @@autocommit FROM {store} WHERE id = 1

-- name: set_longest_lease(longest)
UPDATE {store} SET longest_lease = $longest WHERE id = 1

-- name: highest_token
SELECT COALESCE(MAX(token), 0) FROM {companion}

-- name: clock
-- The server's clock.
SELECT {now}
