-- Readers share a row. The arguments, and the insert id of a grant, are those of acquire.sql.

-- name: join(name, owner, label, lease, least, version, kept, least_shared)
-- Makes $owner a reader. The name is free, and is taken as by `insert`, or readers share it. If the owner is a reader already, sets
-- its lease anew. All readers have one token. Where others already share the lock, their token has been checked, so it must only
-- be above the floor of the request: $least_shared. The row's lease is the longest of theirs. $version and $kept are not used.
--
-- The assignments mean the same in any order, as those of `insert`: the ones above that of `expires` do not change whether
-- {joins} is true.
INSERT INTO {locks} (name, owner, readers, label, token, version, expires, kept)
SELECT $name, {shared}, CONCAT($owner, ','), $label, LAST_INSERT_ID(GREATEST({now}, $least)), 1, {now} + $lease, 2
FROM DUAL WHERE NOT {behind}
ON DUPLICATE KEY UPDATE
    token = IF(
        {joins},
        LAST_INSERT_ID(
            IF({locks}.expires <= {now}, GREATEST({now},
                -- guard: join-above
                {locks}.token + 1,
                $least), GREATEST({locks}.token, $least_shared))
        ),
        {locks}.token + CAST(LAST_INSERT_ID(0) AS SIGNED)
    ),
    label = IF({joins}, $label, {locks}.label),
    version = IF({joins}, {locks}.version + 1, {locks}.version),
    kept = IF({joins} AND {locks}.expires <= {now}, 2, {locks}.kept),
    owner = IF({joins}, {shared}, {locks}.owner),
    readers = IF({joins}, IF({locks}.expires <= {now}, CONCAT($owner, ','),
        IF(LOCATE($owner, {locks}.readers) > 0, {locks}.readers,
        -- guard: join-others
        CONCAT({locks}.readers, $owner, ',')
        )), {locks}.readers),
    expires = IF({joins},
        -- guard: join-expires
        GREATEST({locks}.expires, {now} + $lease)
        , {locks}.expires)

-- name: part(name, owner)
-- Removes the reader $owner from those who share the lock. The last reader then holds it alone, and must release it. The insert
-- id is 1 if others are left, and 2 if not.
UPDATE {locks} SET
    version = version + LEAST(1, CAST(LAST_INSERT_ID(IF(LENGTH(readers) = {reader}, 2, 1)) AS SIGNED)),
    owner = IF(LENGTH(readers) = {reader}, $owner, owner),
    readers = IF(LENGTH(readers) = {reader}, NULL,
        CONCAT(LEFT(readers, LOCATE($owner, readers) - 1), SUBSTR(readers, LOCATE($owner, readers) + {reader})))
WHERE name = $name AND {has_reader} AND expires > {now}

-- name: checked(name, token)
-- Notes that $token, which readers share, was checked: those who join later do not check it.
UPDATE {locks} SET kept = 0 WHERE name = $name AND token = $token AND kept = 2

-- part: joins
-- Whether $owner may share the row, or does so already.
(({locks}.expires <= {now} OR (
-- guard: join-readers
{locks}.owner = {shared} AND
(LOCATE($owner, {locks}.readers) > 0 OR
-- guard: join-most
LENGTH({locks}.readers) < {most}
))) AND {not_abandoned})

-- part: has_reader
-- Whether $owner is one of the readers who share the row.
(owner = {shared} AND LOCATE($owner, readers) > 0)

-- part: readers
-- The number of readers who share the row; null if none do.
IF(owner = {shared}, LENGTH(readers) DIV {reader}, NULL) AS readers
