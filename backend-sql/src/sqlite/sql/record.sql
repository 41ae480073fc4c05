-- The records of names. The clocks are those of acquire.sql.

-- name: write_record(name, owner, now, epoch, wall, token, number, value, forget_at)
-- Writes the record if $owner holds the lock, under its $token. A record of the same grant whose
-- number is as high or higher stays: this is a repeat, or a late request. Answers no row if $owner
-- does not hold the lock.
INSERT INTO {records} AS r (name, token, number, value, written, forget_at)
SELECT l.name, $token, $number, $value, $wall, $forget_at FROM {locks} AS l
WHERE l.name = $name
    -- guard: record-owner
    AND l.owner = $owner
    -- guard: record-kept
    AND NOT l.kept
    -- guard: record-expired
    AND (l.epoch <> $epoch OR l.expires > $now)
ON CONFLICT (name) DO UPDATE SET
    value = CASE WHEN {repeats} THEN r.value ELSE excluded.value END,
    written = CASE WHEN {repeats} THEN r.written ELSE excluded.written END,
    forget_at = CASE WHEN {repeats} THEN r.forget_at ELSE excluded.forget_at END,
    number = CASE WHEN {repeats} THEN r.number ELSE excluded.number END,
    token = excluded.token
RETURNING 1

-- name: is_written(name, token, number)
-- Whether this grant has made this write, or a later one, while it held the lock.
SELECT 1 FROM {records} WHERE name = $name AND token = $token AND number >= $number

-- name: read_record(name)
-- The record of a name.
-- It names a column of the locks, so that it fails where the tables are of another version.
SELECT token, value, written FROM {records} WHERE name = $name
    AND NOT EXISTS (SELECT expires FROM {locks} WHERE false)

-- name: forget_records(wall)
-- Part of a sweep: deletes the records whose time is over.
DELETE FROM {records}
-- guard: record-time
WHERE forget_at <= $wall

-- name: synchronous
-- When this connection waits for the disk: 1 for NORMAL, 2 for FULL.
PRAGMA synchronous

-- part: repeats
-- Whether the record is of this write already, or of a later one of the same grant.
(r.token = excluded.token
-- guard: record-number
AND r.number >= excluded.number
)
