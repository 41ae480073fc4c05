-- Readers share a row. Each has its own lease, and is no reader any more when that has ended,
-- although its entry stays in the column until the name is free, or until another reader needs the
-- room. Ends of leases are compared as text. For an owner without an entry, SUBSTR yields text that
-- begins with '-', which sorts below all digits: so it is no reader.
--
-- The arguments, and the insert id of a grant, are those of acquire.sql.

-- name: join(name, owner, label, lease, least, version, kept, least_shared)
-- Makes $owner a reader. The name is free, and is taken as by `insert`, or readers share it. If the
-- owner is a reader already, sets its lease anew. All readers have one token. Where others already
-- share the lock, their token has been checked, so it must only be above the floor of the request:
-- $least_shared. The row's lease is the longest of theirs. $version and $kept are not used.
--
-- The assignments mean the same in any order, as those of `insert`: the ones above that of
-- `expires` do not change whether {joins} is true.
INSERT INTO {locks} (name, owner, readers, label, token, version, expires, kept)
SELECT $name, {shared}, {entry}, $label, LAST_INSERT_ID(GREATEST({now}, $least)), 1, {now} + $lease, 2
FROM DUAL WHERE NOT {behind}
ON DUPLICATE KEY UPDATE
    token = IF(
        {joins},
        LAST_INSERT_ID(
            IF({locks}.expires <= {now}, GREATEST({now},
                -- guard: join-above | S2 | tokens_rise_between_readers_and_writers | 0,
                {locks}.token + 1,
                $least), GREATEST({locks}.token, $least_shared))
        ),
        {locks}.token + CAST(LAST_INSERT_ID(0) AS SIGNED)
    ),
    label = IF({joins}, $label, {locks}.label),
    version = IF({joins}, {locks}.version + 1, {locks}.version),
    kept = IF({joins} AND {locks}.expires <= {now}, 2, {locks}.kept),
    owner = IF({joins}, {shared}, {locks}.owner),
    readers = IF({joins}, IF({locks}.expires <= {now}, {entry},
        IF(LOCATE($owner, {locks}.readers) > 0,
        INSERT({locks}.readers, LOCATE($owner, {locks}.readers) + 33, 16, GREATEST(
            SUBSTR({locks}.readers, LOCATE($owner, {locks}.readers) + 33, 16), LPAD({now} + $lease, 16, '0')
        )),
        CONCAT(
            -- guard: join-others | S1 | a_reader_that_leaves_twice_counts_once | '',
            {locks}.readers,
            {entry}
        ))), {locks}.readers),
    expires = IF({joins},
        -- guard: join-expires | S1 | a_reader_with_a_short_lease |
        --   TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?
        GREATEST({locks}.expires, {now} + $lease)
        , {locks}.expires)

-- name: part(name, owner)
-- Removes the reader $owner from those who share the lock. If its lease is the longest, the row's
-- then ends with the longest of the others. The last reader then holds the lock alone, and must
-- release it. The insert id is 1 if others are left, and 2 if not.
--
-- It inserts nothing, as `renew`. In `expires` it brings the longest end of the others, or 0 if the
-- row's lease stays as it is: the ends are read one by one only where they count.
INSERT INTO {locks} (name, token, version, expires, kept)
SELECT l.name, MAX(l.token), MAX(l.version),
    MAX(IF(LEFT(r.entry, 32) = $owner, 0, CAST(SUBSTR(r.entry, 34) AS SIGNED))), MAX(l.kept)
FROM {locks} AS l STRAIGHT_JOIN JSON_TABLE(CONCAT('["',
    IF(SUBSTR(l.readers, LOCATE($owner, l.readers) + 33, 16) < LPAD(l.expires, 16, '0'), $owner,
        REPLACE(LEFT(l.readers, LENGTH(l.readers) - 1), ',', '","')),
    '"]'), '$[*]' COLUMNS (entry VARCHAR(49) PATH '$')) AS r
WHERE l.name = $name AND {has_reader} AND l.expires > {now}
GROUP BY l.name
FOR UPDATE
ON DUPLICATE KEY UPDATE
    version = {locks}.version + LEAST(1, CAST(LAST_INSERT_ID(IF(LENGTH({locks}.readers) = {reader}, 2, 1)) AS SIGNED)),
    owner = IF(LENGTH({locks}.readers) = {reader}, $owner, {locks}.owner),
    -- guard: part-expires | L1 | a_writer_after_a_reader_that_crashed(leaving)
    expires = IF(VALUES(expires) > 0, VALUES(expires), {locks}.expires),
    readers = IF(LENGTH({locks}.readers) = {reader}, NULL, CONCAT(
        LEFT({locks}.readers, LOCATE($owner, {locks}.readers) - 1),
        SUBSTR({locks}.readers, LOCATE($owner, {locks}.readers) + {reader})
    ))

-- name: checked(name, token)
-- Notes that $token, which readers share, was checked: those who join later do not check it.
UPDATE {locks} SET kept = 0 WHERE name = $name AND token = $token AND kept = 2

-- name: make_room(name, one, two, three, four)
-- Removes the entries of at most four readers whose leases have ended. If a reader has joined again
-- since, its entry is another text, and stays.
UPDATE {locks} SET version = version + 1,
    readers = REPLACE(REPLACE(REPLACE(REPLACE(readers, $one, ''), $two, ''), $three, ''), $four, '')
WHERE name = $name

-- part: joins
-- Whether $owner may share the row, or does so already.
(({locks}.expires <= {now} OR (
-- guard: join-readers | S1 | a_reader_beside_a_writer
{locks}.owner = {shared} AND
(LOCATE($owner, {locks}.readers) > 0 OR
-- guard: join-most | S1 | a_reader_beside_the_most | 1 = 1
LENGTH({locks}.readers) < {most}
))) AND {not_abandoned})

-- part: entry
-- The entry of $owner.
CONCAT($owner, '-', LPAD({now} + $lease, 16, '0'), ',')

-- part: has_reader
-- Whether $owner is one of the readers who share the row.
(owner = {shared} AND
-- guard: reader-ended | S4 | a_late_release_beside_another | LOCATE(?, readers) > 0
SUBSTR(readers, LOCATE($owner, readers) + 33, 16) > LPAD({now}, 16, '0')
)

-- part: renewed_readers
-- The readers of the row, $owner with a new lease if it is one of them.
IF({has_reader}, INSERT(readers, LOCATE($owner, readers) + 33, 16,
    GREATEST(SUBSTR(readers, LOCATE($owner, readers) + 33, 16), LPAD({now} + $lease, 16, '0'))
), readers)
