-- The records of names.

-- name: write_record(name, owner, token, number, value, keep_for)
-- Writes the record if $owner holds the lock, under its $token; $keep_for is in microseconds. A
-- record of the same grant whose number is as high or higher stays: this is a repeat, or a late
-- request. Nobody else can take the lock before this transaction ends, because it has locked the
-- row. Affects no row if $owner does not hold the lock.
--
-- The server makes the assignments one after the other, or all at once (MariaDB's
-- SIMULTANEOUS_ASSIGNMENT). Each one means the same in both cases: only the last two change whether
-- {repeats} is true.
INSERT INTO {records} (name, token, number, value, written, forget_at)
SELECT l.name, $token, $number, $value, {now}, {now} + $keep_for FROM {locks} AS l
WHERE l.name = $name
    -- guard: record-owner
    AND l.owner = $owner
    -- guard: record-kept
    AND l.kept <> 1
    -- guard: record-expired
    AND l.expires > {now}
-- guard: record-locks
FOR UPDATE
ON DUPLICATE KEY UPDATE
    value = IF({repeats}, {records}.value, $value),
    written = IF({repeats}, {records}.written, {now}),
    forget_at = IF({repeats}, {records}.forget_at, {now} + $keep_for),
    number = IF({repeats}, {records}.number, $number),
    token = $token

-- name: is_written(name, token, number)
-- Whether this grant has made this write, or a later one, while it held the lock.
SELECT 1 FROM {records} WHERE name = $name AND token = $token AND number >= $number

-- name: read_record(name)
-- The record of a name, and the clock.
-- It names a column of the locks, so that it fails where the tables are of another version.
SELECT r.token, r.value, r.written, {now} AS now
FROM (SELECT 1 AS one) AS o LEFT JOIN {records} AS r ON r.name = $name
WHERE NOT EXISTS (SELECT expires FROM {locks} WHERE 1 = 0)

-- name: over_records(most)
-- Part of a sweep: at most $most names of records whose time is over.
SELECT HEX(name) FROM {records}
-- guard: record-over
WHERE forget_at <= {now}
LIMIT $most

-- name: forget_records(batch)
-- Deletes the records of the names in $batch, a JSON array of [name in hexadecimal digits], if
-- their time is over, and nobody else has locked them.
DELETE {records} FROM (
    SELECT r.name FROM {batch} STRAIGHT_JOIN {records} AS r ON r.name = UNHEX(g.name)
    -- guard: record-time
    WHERE r.forget_at <= {now}
    LIMIT 1000000
    FOR UPDATE SKIP LOCKED
) AS over_now STRAIGHT_JOIN {records} ON {records}.name = over_now.name

-- part: repeats
-- Whether the record is of this write already, or of a later one of the same grant.
({records}.token = $token
-- guard: record-number
AND {records}.number >= $number
)
