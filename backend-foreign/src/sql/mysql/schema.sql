-- The tables, and a look at their columns.

-- name: schema
-- ShedLock's own table, leasehold's companion table, and the settings. Times are the server's UTC.
-- A TIMESTAMP, as in ShedLock's documentation, would be converted by the session's time zone. In
-- the companion table names are bytes, so no collation makes two of them equal.
CREATE TABLE IF NOT EXISTS {lock} (
    name       VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    lock_until DATETIME(3)  NOT NULL,
    locked_at  DATETIME(3)  NOT NULL,
    locked_by  VARCHAR(255) NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {companion} (
    name   VARBINARY(1020) NOT NULL PRIMARY KEY,
    owner  VARBINARY(32),           -- hexadecimal digits; of the last holder that was a leasehold client
    label  VARBINARY(255),          -- the owner's label, for people
    token  BIGINT          NOT NULL, -- of the last holder that was a leasehold client
    buried MEDIUMBLOB               -- owners that must never be granted anything any more, each with a comma behind it
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {store} (
    id            INT           NOT NULL PRIMARY KEY, -- 1
    version       BIGINT        NOT NULL,             -- of the companion and of this table
    longest_lease BIGINT        NOT NULL,             -- in microseconds
    identity      VARBINARY(32) NOT NULL              -- which store this is: made once
) ENGINE = InnoDB;

INSERT IGNORE INTO {store} (id, version, longest_lease, identity) VALUES (1, 1, {longest_lease}, MD5(UUID()));

-- name: columns
-- The columns of ShedLock's table and their types. A TIMESTAMP is converted by the time zone of the
-- session. Sessions of other clients have that of the server, unless init_connect sets another. The
-- zone must be UTC all the time, and its name does not show that: a zone called GMT may have summer
-- time. So the server's rules are asked, for each month of the next three years.
SELECT c.column_name, CASE
    WHEN c.column_type LIKE 'timestamp%' AND @@global.init_connect LIKE '%time_zone%'
    THEN CONCAT(c.column_type, ' of the time zone that the server''s init_connect sets')
    WHEN c.column_type LIKE 'timestamp%' AND NOT z.is_utc
    THEN CONCAT(c.column_type, ' of the server''s time zone ',
        IF(@@global.time_zone = 'SYSTEM', @@system_time_zone, @@global.time_zone), ', which is not UTC all the year')
    ELSE c.column_type
END
FROM information_schema.columns AS c, (
    -- NULL is a zone of which the server has no rules.
    SELECT MIN(COALESCE(CONVERT_TZ(t.moment, '+00:00', @@global.time_zone) = t.moment, 0)) AS is_utc
    FROM (
        SELECT UTC_TIMESTAMP() + INTERVAL 6 * a.digit + b.digit MONTH AS moment
        FROM (SELECT 0 AS digit UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5) AS a,
            (SELECT 0 AS digit UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5) AS b
    ) AS t
) AS z
WHERE c.table_schema = DATABASE() AND CONCAT('`', c.table_name, '`') = '{lock}'

-- part: utc
-- The server's UTC at the start of the statement.
UTC_TIMESTAMP(6)

-- part: left
-- For how many microseconds a lock is still held.
GREATEST(TIMESTAMPDIFF(MICROSECOND, {utc}, l.lock_until), 0)
