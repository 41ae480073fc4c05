-- What leasehold sends, with the default names of the tables.

-- abandon(name, owner, watermark)
INSERT INTO `leasehold_locks` (name, owner, label, token, version, expires, kept, buried, buried_at)
VALUES (?, NULL, NULL, ?, 1, 0, 2, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))
ON DUPLICATE KEY UPDATE
    version = `leasehold_locks`.version + 1,
    buried = IF(
        `leasehold_locks`.buried IS NULL OR `leasehold_locks`.buried_at < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 3600000000, ?,
        IF((`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
), RIGHT(CONCAT(`leasehold_locks`.buried, ?), 32000), `leasehold_locks`.buried)
    ),
    buried_at = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
    expires = IF(`leasehold_locks`.owner = ?
        AND `leasehold_locks`.kept <> 1
        , 0, `leasehold_locks`.expires);

-- abandon_entry(name, owner)
INSERT INTO `leasehold_queue` (name, owner, heard) VALUES (?, ?, -TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))) ON DUPLICATE KEY UPDATE heard = -TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));

-- admit(resource, token)
INSERT INTO `leasehold_fence` (resource, token) VALUES (?, LAST_INSERT_ID(?))
ON DUPLICATE KEY UPDATE
    token = LAST_INSERT_ID(GREATEST(token, ?));

-- await_bell(bell, seconds)
SELECT IF(GET_LOCK(?, ?), RELEASE_LOCK(?), 0);

-- checked(name, token)
UPDATE `leasehold_locks` SET kept = 0 WHERE name = ? AND token = ? AND kept = 2;

-- clock()
SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));

-- create_row(name, watermark)
INSERT IGNORE INTO `leasehold_locks` (name, owner, label, token, version, expires, kept)
VALUES (?, NULL, NULL, ?, 0, 0, 2);

-- dead_entries(most)
SELECT q.position FROM `leasehold_queue` AS q
WHERE (q.heard > 0 AND NOT (
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0)) OR (q.heard < 0 AND q.heard > 3600000000 - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))
LIMIT ?;

-- durability()
SHOW GLOBAL VARIABLES WHERE Variable_name IN (
    'innodb_flush_log_at_trx_commit',
    'innodb_flush_method', 'log_bin', 'sync_binlog', 'wsrep_on', 'group_replication_group_name'
);

-- enter(name, owner, label, floor, shared)
INSERT INTO `leasehold_queue` (name, owner, label, floor, shared, heard) VALUES (?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))
ON DUPLICATE KEY UPDATE
    heard = IF(heard < 0, heard, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)));

-- exists(table)
SELECT table_type = 'BASE TABLE' FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = ?;

-- force(name, longest)
UPDATE `leasehold_locks` SET
    expires = 0,
    token = IF(token BETWEEN 0 AND 9007199254740990, token,
        TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?),
    version = LAST_INSERT_ID(IF(version BETWEEN 0 AND 9007199254740990, version + 1, 1))
WHERE name = ? AND (
    expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
    OR token NOT BETWEEN 0 AND 9007199254740990 OR version NOT BETWEEN 0 AND 9007199254740990
);

-- forget_entries(positions)
DELETE `leasehold_queue` FROM (
    SELECT q.position FROM JSON_TABLE(?, '$[*]' COLUMNS (position BIGINT PATH '$')) AS g
    STRAIGHT_JOIN `leasehold_queue` AS q ON q.position = g.position
    WHERE NOT (
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0)
    LIMIT 1000000
    FOR UPDATE SKIP LOCKED
) AS dead STRAIGHT_JOIN `leasehold_queue` ON `leasehold_queue`.position = dead.position;

-- forget_records(batch)
DELETE `leasehold_records` FROM (
    SELECT r.name FROM JSON_TABLE(?, '$[*]' COLUMNS (name VARCHAR(510) PATH '$[0]', owner VARCHAR(32) PATH '$[1]', lease BIGINT PATH '$[2]')) AS g STRAIGHT_JOIN `leasehold_records` AS r ON r.name = UNHEX(g.name)
    WHERE r.forget_at <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
    LIMIT 1000000
    FOR UPDATE SKIP LOCKED
) AS over_now STRAIGHT_JOIN `leasehold_records` ON `leasehold_records`.name = over_now.name;

-- forgotten(name, token)
SELECT s.watermark FROM `leasehold_settings` AS s, `leasehold_locks` AS l WHERE s.id = 1
    AND l.name = ? AND l.token = ? AND l.kept = 2
    AND s.watermark >= ?;

-- free_names(most)
SELECT HEX(name), token FROM `leasehold_locks`
WHERE expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AND (`leasehold_locks`.buried_at IS NULL OR `leasehold_locks`.buried_at < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 3600000000) AND name NOT IN (SELECT q.name FROM `leasehold_queue` AS q WHERE
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0)
LIMIT ?;

-- hand_on(name, owner, label, lease, least, holder)
UPDATE `leasehold_locks` SET
    token = LAST_INSERT_ID(GREATEST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), token + 1, ?)),
    owner = ?, label = ?, version = version + 1, expires = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?,
    kept = 0
WHERE name = ?
    AND owner = ?
    AND kept <> 1
    AND expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
    AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
) AND NOT (IFNULL((SELECT q.owner FROM `leasehold_queue` AS q WHERE q.name = ? AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0 ORDER BY q.position LIMIT 1), ?)
<> ?
);

-- handoff(name, owner)
UPDATE `leasehold_locks` SET
    token = IFNULL((SELECT
        GREATEST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), `leasehold_locks`.token + 1, q.floor + 1)
        FROM `leasehold_queue` AS q WHERE q.name = ? AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0 AND q.owner <> ?
AND (`leasehold_locks`.buried IS NULL OR LOCATE(q.owner, `leasehold_locks`.buried) = 0)
ORDER BY
q.position
LIMIT 1), token),
    label = IFNULL((SELECT q.label FROM `leasehold_queue` AS q WHERE q.name = ? AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0 AND q.owner <> ?
AND (`leasehold_locks`.buried IS NULL OR LOCATE(q.owner, `leasehold_locks`.buried) = 0)
ORDER BY
q.position
LIMIT 1), label),
    readers = IFNULL((SELECT IF(q.shared, CONCAT(q.owner, '-', LPAD(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 2000000, 16, '0'), ','), NULL) FROM `leasehold_queue` AS q WHERE q.name = ? AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0 AND q.owner <> ?
AND (`leasehold_locks`.buried IS NULL OR LOCATE(q.owner, `leasehold_locks`.buried) = 0)
ORDER BY
q.position
LIMIT 1), readers),
    expires = IFNULL((SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 2000000 FROM `leasehold_queue` AS q WHERE q.name = ? AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0 AND q.owner <> ?
AND (`leasehold_locks`.buried IS NULL OR LOCATE(q.owner, `leasehold_locks`.buried) = 0)
ORDER BY
q.position
LIMIT 1), 0),
    owner = IFNULL((SELECT IF(q.shared, '00000000000000000000000000000000', q.owner) FROM `leasehold_queue` AS q WHERE q.name = ? AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0 AND q.owner <> ?
AND (`leasehold_locks`.buried IS NULL OR LOCATE(q.owner, `leasehold_locks`.buried) = 0)
ORDER BY
q.position
LIMIT 1), owner),
    version = version + 1, kept = 0
WHERE name = ?
    AND owner = ?
    AND expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));

-- hang_bell(bell)
DO GET_LOCK(?, 0);

-- heartbeat(batch)
INSERT INTO `leasehold_queue` (name, position, owner, heard)
SELECT q.name, q.position, q.owner, q.heard
FROM JSON_TABLE(?, '$[*]' COLUMNS (name VARCHAR(510) PATH '$[0]', owner VARCHAR(32) PATH '$[1]', lease BIGINT PATH '$[2]')) AS g STRAIGHT_JOIN `leasehold_queue` AS q ON q.name = UNHEX(g.name) AND q.owner = g.owner
WHERE
    q.heard > 0
FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE heard = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));

-- highest_token()
SELECT GREATEST(
    (SELECT IFNULL(MAX(watermark), 0) FROM `leasehold_settings`), (SELECT IFNULL(MAX(token), 0) FROM `leasehold_locks`)
);

-- identity()
SELECT identity FROM `leasehold_settings` WHERE id = 1;

-- insert(name, owner, label, lease, least)
INSERT INTO `leasehold_locks` (name, owner, label, token, version, expires, kept)
SELECT ?, ?, ?, LAST_INSERT_ID(GREATEST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), ?)), 1, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, 2
FROM DUAL WHERE NOT (IFNULL((SELECT q.owner FROM `leasehold_queue` AS q WHERE q.name = ? AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0 ORDER BY q.position LIMIT 1), ?)
<> ?
)
ON DUPLICATE KEY UPDATE
    token = IF(
        ((`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR (
`leasehold_locks`.owner = ? AND
`leasehold_locks`.kept <> 1)) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)),
        LAST_INSERT_ID(
            IF(`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), GREATEST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), `leasehold_locks`.token + 1, ?), `leasehold_locks`.token)
        ),
        `leasehold_locks`.token + CAST(LAST_INSERT_ID(0) AS SIGNED)
    ),
    owner = IF(((`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR (
`leasehold_locks`.owner = ? AND
`leasehold_locks`.kept <> 1)) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)), ?, `leasehold_locks`.owner),
    label = IF(((`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR (
`leasehold_locks`.owner = ? AND
`leasehold_locks`.kept <> 1)) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)), ?, `leasehold_locks`.label),
    version = IF(((`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR (
`leasehold_locks`.owner = ? AND
`leasehold_locks`.kept <> 1)) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)), `leasehold_locks`.version + 1, `leasehold_locks`.version),
    kept = IF(((`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR (
`leasehold_locks`.owner = ? AND
`leasehold_locks`.kept <> 1)) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)) AND `leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), 2, `leasehold_locks`.kept),
    expires = IF(((`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR (
`leasehold_locks`.owner = ? AND
`leasehold_locks`.kept <> 1)) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)), GREATEST(`leasehold_locks`.expires, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?), `leasehold_locks`.expires);

-- is_written(name, token, number)
SELECT 1 FROM `leasehold_records` WHERE name = ? AND token = ? AND number >= ?;

-- join(name, owner, label, lease, least, version, kept, least_shared)
INSERT INTO `leasehold_locks` (name, owner, readers, label, token, version, expires, kept)
SELECT ?, '00000000000000000000000000000000', CONCAT(?, '-', LPAD(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, 16, '0'), ','), ?, LAST_INSERT_ID(GREATEST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), ?)), 1, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, 2
FROM DUAL WHERE NOT (IFNULL((SELECT q.owner FROM `leasehold_queue` AS q WHERE q.name = ? AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0 ORDER BY q.position LIMIT 1), ?)
<> ?
)
ON DUPLICATE KEY UPDATE
    token = IF(
        ((`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR (
`leasehold_locks`.owner = '00000000000000000000000000000000' AND
(LOCATE(?, `leasehold_locks`.readers) > 0 OR
LENGTH(`leasehold_locks`.readers) < 50000
))) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)),
        LAST_INSERT_ID(
            IF(`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), GREATEST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
                `leasehold_locks`.token + 1,
                ?), GREATEST(`leasehold_locks`.token, ?))
        ),
        `leasehold_locks`.token + CAST(LAST_INSERT_ID(0) AS SIGNED)
    ),
    label = IF(((`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR (
`leasehold_locks`.owner = '00000000000000000000000000000000' AND
(LOCATE(?, `leasehold_locks`.readers) > 0 OR
LENGTH(`leasehold_locks`.readers) < 50000
))) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)), ?, `leasehold_locks`.label),
    version = IF(((`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR (
`leasehold_locks`.owner = '00000000000000000000000000000000' AND
(LOCATE(?, `leasehold_locks`.readers) > 0 OR
LENGTH(`leasehold_locks`.readers) < 50000
))) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)), `leasehold_locks`.version + 1, `leasehold_locks`.version),
    kept = IF(((`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR (
`leasehold_locks`.owner = '00000000000000000000000000000000' AND
(LOCATE(?, `leasehold_locks`.readers) > 0 OR
LENGTH(`leasehold_locks`.readers) < 50000
))) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)) AND `leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), 2, `leasehold_locks`.kept),
    owner = IF(((`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR (
`leasehold_locks`.owner = '00000000000000000000000000000000' AND
(LOCATE(?, `leasehold_locks`.readers) > 0 OR
LENGTH(`leasehold_locks`.readers) < 50000
))) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)), '00000000000000000000000000000000', `leasehold_locks`.owner),
    readers = IF(((`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR (
`leasehold_locks`.owner = '00000000000000000000000000000000' AND
(LOCATE(?, `leasehold_locks`.readers) > 0 OR
LENGTH(`leasehold_locks`.readers) < 50000
))) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)), IF(`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), CONCAT(?, '-', LPAD(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, 16, '0'), ','),
        IF(LOCATE(?, `leasehold_locks`.readers) > 0,
        INSERT(`leasehold_locks`.readers, LOCATE(?, `leasehold_locks`.readers) + 33, 16, GREATEST(
            SUBSTR(`leasehold_locks`.readers, LOCATE(?, `leasehold_locks`.readers) + 33, 16), LPAD(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, 16, '0')
        )),
        CONCAT(
            `leasehold_locks`.readers,
            CONCAT(?, '-', LPAD(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, 16, '0'), ',')
        ))), `leasehold_locks`.readers),
    expires = IF(((`leasehold_locks`.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) OR (
`leasehold_locks`.owner = '00000000000000000000000000000000' AND
(LOCATE(?, `leasehold_locks`.readers) > 0 OR
LENGTH(`leasehold_locks`.readers) < 50000
))) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)),
        GREATEST(`leasehold_locks`.expires, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?)
        , `leasehold_locks`.expires);

-- keep(name, owner, hold)
UPDATE `leasehold_locks` SET expires = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, kept = 1, version = LAST_INSERT_ID(version + 1)
WHERE name = ? AND owner = ? AND expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));

-- leave(name, owner)
DELETE FROM `leasehold_queue` WHERE name = ?
    AND owner = ?;

-- list(after, most)
SELECT HEX(name) AS position, name, owner, label, token, version, kept, GREATEST(expires, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))) - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS remaining,
    TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS clock, IF(owner = '00000000000000000000000000000000', readers, NULL) AS readers, NULL AS entries,
    (SELECT COUNT(*) FROM `leasehold_queue` AS q WHERE q.name = `leasehold_locks`.name AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0) AS waiting, 0 AS ahead, 0 AS queued
FROM `leasehold_locks` WHERE name > UNHEX(?) AND expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
ORDER BY name LIMIT ?;

-- make_room(name, one, two, three, four)
UPDATE `leasehold_locks` SET version = version + 1,
    readers = REPLACE(REPLACE(REPLACE(REPLACE(readers, ?, ''), ?, ''), ?, ''), ?, '')
WHERE name = ?;

-- most_sessions()
SELECT @@max_connections, @@SESSION.max_user_connections;

-- over_records(most)
SELECT HEX(name) FROM `leasehold_records`
WHERE forget_at <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
LIMIT ?;

-- part(name, owner)
INSERT INTO `leasehold_locks` (name, token, version, expires, kept)
SELECT l.name, MAX(l.token), MAX(l.version),
    MAX(IF(LEFT(r.entry, 32) = ?, 0, CAST(SUBSTR(r.entry, 34) AS SIGNED))), MAX(l.kept)
FROM `leasehold_locks` AS l STRAIGHT_JOIN JSON_TABLE(CONCAT('["',
    IF(SUBSTR(l.readers, LOCATE(?, l.readers) + 33, 16) < LPAD(l.expires, 16, '0'), ?,
        REPLACE(LEFT(l.readers, LENGTH(l.readers) - 1), ',', '","')),
    '"]'), '$[*]' COLUMNS (entry VARCHAR(49) PATH '$')) AS r
WHERE l.name = ? AND (owner = '00000000000000000000000000000000' AND
SUBSTR(readers, LOCATE(?, readers) + 33, 16) > LPAD(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), 16, '0')
) AND l.expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
GROUP BY l.name
FOR UPDATE
ON DUPLICATE KEY UPDATE
    version = `leasehold_locks`.version + LEAST(1, CAST(LAST_INSERT_ID(IF(LENGTH(`leasehold_locks`.readers) = 50, 2, 1)) AS SIGNED)),
    owner = IF(LENGTH(`leasehold_locks`.readers) = 50, ?, `leasehold_locks`.owner),
    expires = IF(VALUES(expires) > 0, VALUES(expires), `leasehold_locks`.expires),
    readers = IF(LENGTH(`leasehold_locks`.readers) = 50, NULL, CONCAT(
        LEFT(`leasehold_locks`.readers, LOCATE(?, `leasehold_locks`.readers) - 1),
        SUBSTR(`leasehold_locks`.readers, LOCATE(?, `leasehold_locks`.readers) + 50)
    ));

-- raise(name, owner, token)
UPDATE `leasehold_locks` SET token = GREATEST(token, ?), version = LAST_INSERT_ID(version + 1)
WHERE name = ? AND (owner = ? OR (owner = '00000000000000000000000000000000' AND
SUBSTR(readers, LOCATE(?, readers) + 33, 16) > LPAD(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), 16, '0')
)) AND expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));

-- read_holder(name, owner, bells)
SELECT IFNULL(owner = ?, 0), token, kept, GREATEST(expires, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))) - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), 0, IF(? AND IS_FREE_LOCK(CONCAT('leasehold.', IFNULL(owner, ''))) = 0, owner, NULL) AS bell FROM `leasehold_locks` WHERE name = ?;

-- read_place(name, owner, bells)
SELECT IFNULL(owner = ?, 0), token, kept, GREATEST(expires, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))) - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), (SELECT COUNT(*) FROM (
    SELECT 1 FROM `leasehold_queue` AS q WHERE q.name = ? AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0 AND q.position < IFNULL(
        (SELECT m.position FROM `leasehold_queue` AS m WHERE m.name = ? AND m.owner = ?), 9223372036854775807
    )
    LIMIT 64
) AS before_it),
    IFNULL(
        (SELECT IF(? AND IS_FREE_LOCK(CONCAT('leasehold.', q.owner)) = 0, q.owner, NULL) FROM `leasehold_queue` AS q
            WHERE q.name = ? AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0 AND q.position < (SELECT m.position FROM `leasehold_queue` AS m WHERE m.name = ? AND m.owner = ?)
            ORDER BY q.position DESC LIMIT 1),
        IF(? AND IS_FREE_LOCK(CONCAT('leasehold.', IFNULL(owner, ''))) = 0, owner, NULL)
    ) AS bell
FROM `leasehold_locks` WHERE name = ?;

-- read_record(name)
SELECT r.token, r.value, r.written, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS now
FROM (SELECT 1 AS one) AS o LEFT JOIN `leasehold_records` AS r ON r.name = ?
WHERE NOT EXISTS (SELECT expires FROM `leasehold_locks` WHERE 1 = 0);

-- read_row(name, owner)
SELECT name, IF((owner = '00000000000000000000000000000000' AND
SUBSTR(readers, LOCATE(?, readers) + 33, 16) > LPAD(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), 16, '0')
), SUBSTR(readers, LOCATE(?, readers), 32), owner) AS owner, label, token, version, kept, GREATEST(expires, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))) - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS remaining,
    TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS clock, IF(owner = '00000000000000000000000000000000' AND (? IS NULL OR LENGTH(readers) >= 50000), readers, NULL) AS readers,
    IF(owner = '00000000000000000000000000000000', LENGTH(readers) DIV 50, NULL) AS entries,
    IF(? IS NULL, (SELECT COUNT(*) FROM `leasehold_queue` AS q WHERE q.name = ? AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0), NULL) AS waiting,
    (SELECT COUNT(*) FROM (
    SELECT 1 FROM `leasehold_queue` AS q WHERE q.name = ? AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0 AND q.position < IFNULL(
        (SELECT m.position FROM `leasehold_queue` AS m WHERE m.name = ? AND m.owner = ?), 9223372036854775807
    )
    LIMIT 64
) AS before_it) AS ahead,
    EXISTS(SELECT 1 FROM `leasehold_queue` AS q WHERE q.name = ? AND q.owner = ? AND q.heard > 0) AS queued
FROM `leasehold_locks` WHERE name = ?;

-- release(name, owner, unchecked)
UPDATE `leasehold_locks` SET expires = 0, kept = IF(? = 1, kept, 0), version = LAST_INSERT_ID(version + 1)
WHERE name = ?
    AND owner = ?
    AND expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));

-- renew(batch)
INSERT INTO `leasehold_locks` (name, token, version, expires, kept)
SELECT l.name, l.token, l.version, l.expires, l.kept
FROM JSON_TABLE(?, '$[*]' COLUMNS (name VARCHAR(510) PATH '$[0]', owner VARCHAR(32) PATH '$[1]', lease BIGINT PATH '$[2]')) AS g STRAIGHT_JOIN `leasehold_locks` AS l ON l.name = UNHEX(g.name) AND (l.owner = g.owner OR (l.owner = '00000000000000000000000000000000' AND
SUBSTR(l.readers, LOCATE(g.owner, l.readers) + 33, 16) > LPAD(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), 16, '0')
))
WHERE l.kept <> 1
AND l.expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE
    readers = IF(`leasehold_locks`.owner = '00000000000000000000000000000000',
        INSERT(`leasehold_locks`.readers, LOCATE(g.owner, `leasehold_locks`.readers) + 33, 16, GREATEST(
            SUBSTR(`leasehold_locks`.readers, LOCATE(g.owner, `leasehold_locks`.readers) + 33, 16), LPAD(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + g.lease, 16, '0')
        )), `leasehold_locks`.readers),
    expires = GREATEST(`leasehold_locks`.expires, LAST_INSERT_ID(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))) + g.lease),
    version = `leasehold_locks`.version + 1;

-- renew_one(name, owner, lease)
UPDATE `leasehold_locks` SET
    readers = IF((owner = '00000000000000000000000000000000' AND
SUBSTR(readers, LOCATE(?, readers) + 33, 16) > LPAD(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), 16, '0')
), INSERT(readers, LOCATE(?, readers) + 33, 16,
    GREATEST(SUBSTR(readers, LOCATE(?, readers) + 33, 16), LPAD(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, 16, '0'))
), readers), expires = GREATEST(expires, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?), version = LAST_INSERT_ID(version + 1)
WHERE name = ? AND (owner = ? OR (owner = '00000000000000000000000000000000' AND
SUBSTR(readers, LOCATE(?, readers) + 33, 16) > LPAD(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), 16, '0')
)) AND kept <> 1 AND expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));

-- renewed(batch, clock)
SELECT g.owner
FROM JSON_TABLE(?, '$[*]' COLUMNS (name VARCHAR(510) PATH '$[0]', owner VARCHAR(32) PATH '$[1]', lease BIGINT PATH '$[2]')) AS g STRAIGHT_JOIN `leasehold_locks` AS l ON l.name = UNHEX(g.name) AND (l.owner = g.owner OR (l.owner = '00000000000000000000000000000000' AND
SUBSTR(l.readers, LOCATE(g.owner, l.readers) + 33, 16) >= LPAD(? + g.lease, 16, '0')
))
WHERE l.kept <> 1
AND l.expires >= ? + g.lease;

-- reown(name, former, owner, label, lease, token)
UPDATE `leasehold_locks` SET
    expires = IF(owner = ?, GREATEST(expires, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?), TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?),
    owner = ?, label = ?, version = LAST_INSERT_ID(version + 1)
WHERE name = ?
    AND (owner = ? OR owner = ?)
    AND token = ?
    AND kept <> 1
    AND expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
    AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
);

-- ring_bell(bell)
DO RELEASE_LOCK(?);

-- sessions()
SHOW GLOBAL STATUS WHERE Variable_name = 'Threads_connected';

-- sessions_of_user()
SELECT COUNT(*) FROM information_schema.processlist AS p
JOIN information_schema.processlist AS o ON o.id = CONNECTION_ID() AND p.user = o.user;

-- set_longest_lease(longest)
UPDATE `leasehold_settings` SET longest_lease = ? WHERE id = 1;

-- settings()
SELECT longest_lease, @@autocommit FROM `leasehold_settings` WHERE id = 1;

-- sweep(batch, highest)
DELETE `leasehold_locks` FROM (
    SELECT l.name FROM JSON_TABLE(?, '$[*]' COLUMNS (name VARCHAR(510) PATH '$[0]', owner VARCHAR(32) PATH '$[1]', lease BIGINT PATH '$[2]')) AS g STRAIGHT_JOIN `leasehold_locks` AS l ON l.name = UNHEX(g.name)
    WHERE l.expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AND l.token <= ? AND (l.buried_at IS NULL OR l.buried_at < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 3600000000)
    LIMIT 1000000
    FOR UPDATE SKIP LOCKED
) AS free STRAIGHT_JOIN `leasehold_locks` ON `leasehold_locks`.name = free.name;

-- sweep_watermark(highest)
UPDATE `leasehold_settings` SET
    watermark = GREATEST(watermark, ?)
WHERE id = 1;

-- take(name, owner, label, lease, least, version, kept)
UPDATE `leasehold_locks` SET
    token = LAST_INSERT_ID(GREATEST(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), token + 1, ?)),
    owner = ?, label = ?, version = version + 1, expires = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?, kept = ?
WHERE name = ? AND version = IFNULL(?, version) AND expires <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AND (`leasehold_locks`.buried IS NULL OR
LOCATE(?, `leasehold_locks`.buried) = 0
)
    AND NOT (IFNULL((SELECT q.owner FROM `leasehold_queue` AS q WHERE q.name = ? AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0 ORDER BY q.position LIMIT 1), ?)
<> ?
)
    AND (? = 2 OR kept <> 2);

-- version()
SELECT (SELECT version FROM `leasehold_settings` WHERE id = 1) FROM (SELECT 0 AS version) AS before_it;

-- waited_for(batch)
SELECT s.longest_lease, @@autocommit, w.owner FROM `leasehold_settings` AS s
LEFT JOIN (
    SELECT g.owner FROM JSON_TABLE(?, '$[*]' COLUMNS (name VARCHAR(510) PATH '$[0]', owner VARCHAR(32) PATH '$[1]', lease BIGINT PATH '$[2]')) AS g WHERE EXISTS (
        SELECT 1 FROM `leasehold_queue` AS q WHERE q.name = UNHEX(g.name) AND
q.heard > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - 4000000 AND
q.heard < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + 4000000 AND
q.heard > 0 AND q.owner <> g.owner
    )
) AS w ON TRUE
WHERE s.id = 1;

-- watermark()
SELECT watermark FROM `leasehold_settings` WHERE id = 1;

-- write_record(name, owner, token, number, value, keep_for)
INSERT INTO `leasehold_records` (name, token, number, value, written, forget_at)
SELECT l.name, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ? FROM `leasehold_locks` AS l
WHERE l.name = ?
    AND l.owner = ?
    AND l.kept <> 1
    AND l.expires > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))
FOR UPDATE
ON DUPLICATE KEY UPDATE
    value = IF((`leasehold_records`.token = ?
AND `leasehold_records`.number >= ?
), `leasehold_records`.value, ?),
    written = IF((`leasehold_records`.token = ?
AND `leasehold_records`.number >= ?
), `leasehold_records`.written, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))),
    forget_at = IF((`leasehold_records`.token = ?
AND `leasehold_records`.number >= ?
), `leasehold_records`.forget_at, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?),
    number = IF((`leasehold_records`.token = ?
AND `leasehold_records`.number >= ?
), `leasehold_records`.number, ?),
    token = ?;
