-- For operators. The clocks are those of acquire.sql.

-- name: list(after, now, epoch, wall, most)
-- At most $most held names after $after, which is in hexadecimal digits.
SELECT hex(l.name) AS position, l.name, l.owner, {count} AS readers, l.label, l.token, l.version,
    kept, lease, expires, l.epoch, until, 0 AS before,
    (SELECT count(*) FROM {queue} AS q WHERE q.name = l.name AND {alive}) AS waiting
FROM {locks} AS l LEFT JOIN {seen} AS s ON {sighting}
WHERE l.name > CAST(unhex($after) AS TEXT) AND l.owner IS NOT NULL AND NOT {over}
ORDER BY l.name LIMIT $most

-- name: force(name, now, epoch, wall)
-- Frees the lock, whoever has it. No token above 9007199254740990 = 2^53 - 2 can be
-- granted: a token out of range becomes the highest that a grant of ours may have, and a version
-- out of range starts again.
UPDATE {locks} AS l SET owner = NULL, readers = NULL, label = NULL,
    token = CASE WHEN token BETWEEN 0 AND 9007199254740990 THEN token
        ELSE $wall + (SELECT longest_lease * 1000 FROM {settings}) END,
    version = CASE WHEN version BETWEEN 0 AND 9007199254740990 THEN version + 1 ELSE 1 END
WHERE name = $name AND (
    (owner IS NOT NULL AND NOT {over})
    OR token NOT BETWEEN 0 AND 9007199254740990 OR version NOT BETWEEN 0 AND 9007199254740990
)
RETURNING version

-- name: longest_lease
-- The store's longest lease, in milliseconds.
SELECT longest_lease FROM {settings}

-- name: set_longest_lease(longest)
-- In milliseconds.
UPDATE {settings} SET longest_lease = $longest

-- name: identity
-- The store's random name, made with the store.
SELECT identity FROM {settings}

-- name: highest_token
-- The highest token of all rows and of all deleted rows.
SELECT max(
    (SELECT coalesce(max(watermark), 0) FROM {settings}), (SELECT coalesce(max(token), 0) FROM {locks})
)

-- name: version
-- The version of the records; null if their row is gone.
SELECT (SELECT version FROM {settings} WHERE id = 1)

-- name: are_made
-- Fails if a table is missing.
SELECT 1 FROM {settings} WHERE EXISTS (SELECT 1 FROM {locks}) IS NOT NULL
    AND EXISTS (SELECT 1 FROM {seen}) IS NOT NULL
    AND EXISTS (SELECT 1 FROM {abandoned}) IS NOT NULL
    AND EXISTS (SELECT 1 FROM {queue}) IS NOT NULL
    AND EXISTS (SELECT 1 FROM {records}) IS NOT NULL
