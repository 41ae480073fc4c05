-- The settings of the store, and what operators read and do.

-- name: exists(table)
-- Whether the table is there, and may be used: 1 for a table, and 0 for a view or anything else of
-- that name.
SELECT table_type = 'BASE TABLE' FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = $table

-- name: version
-- The version of the records; 0 where the settings have no such column.
SELECT (SELECT version FROM {settings} WHERE id = 1) FROM (SELECT 0 AS version) AS before_it

-- name: identity
-- Which store this is.
SELECT identity FROM {settings} WHERE id = 1

-- name: settings
-- The store's longest lease, and whether each statement of this session is its own transaction.
SELECT longest_lease, @@autocommit FROM {settings} WHERE id = 1

-- name: set_longest_lease(longest)
-- Sets the store's longest lease, in microseconds.
UPDATE {settings} SET longest_lease = $longest WHERE id = 1

-- name: watermark
-- A number that no token of a deleted row is above.
SELECT watermark FROM {settings} WHERE id = 1

-- name: durability
-- The server's variables that decide whether a crash may lose what was committed.
SHOW GLOBAL VARIABLES WHERE Variable_name IN (
    -- guard: durability | S1 | a_server_that_flushes_seldom
    'innodb_flush_log_at_trx_commit',
    'innodb_flush_method', 'log_bin', 'sync_binlog', 'wsrep_on', 'group_replication_group_name'
)

-- name: clock
-- The server's clock.
SELECT {now}

-- name: highest_token
-- The highest token of all rows, also of deleted ones.
SELECT GREATEST(
    (SELECT IFNULL(MAX(watermark), 0) FROM {settings}), (SELECT IFNULL(MAX(token), 0) FROM {locks})
)

-- name: list(after, most)
-- At most $most held names after $after, which is in hexadecimal digits.
SELECT HEX(name) AS position, name, owner, label, token, version, kept, GREATEST(expires, {now}) - {now} AS remaining,
    {now} AS clock, IF(owner = {shared}, readers, NULL) AS readers, NULL AS entries,
    (SELECT COUNT(*) FROM {queue} AS q WHERE q.name = {locks}.name AND {alive}) AS waiting, 0 AS ahead, 0 AS queued
FROM {locks} WHERE name > UNHEX($after) AND expires > {now}
ORDER BY name LIMIT $most

-- name: force(name, longest)
-- Frees the lock, whoever has it; $longest is the longest lease in microseconds. No token above
-- 9007199254740990 = 2^53 - 2 can be granted. So a token out of range becomes the highest that a
-- grant of ours may have, and a version out of range becomes 1.
UPDATE {locks} SET
    expires = 0,
    token = IF(token BETWEEN 0 AND 9007199254740990, token,
        {now} + $longest),
    version = LAST_INSERT_ID(IF(version BETWEEN 0 AND 9007199254740990, version + 1, 1))
WHERE name = $name AND (
    expires > {now}
    OR token NOT BETWEEN 0 AND 9007199254740990 OR version NOT BETWEEN 0 AND 9007199254740990
)
