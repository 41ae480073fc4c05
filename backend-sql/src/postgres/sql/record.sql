-- The records of names.

-- name: write_record(name, owner, token, number, value, keep_for)
-- Writes the record if $owner holds the lock, under its $token; $value is in hexadecimal digits. A
-- record of the same grant whose number is as high or higher stays: this is a repeat, or a late
-- request. Nobody else can take the lock before this transaction ends, because it has locked the
-- row.
-- Answers whether the record was written, now or by an earlier request, and whether a crash would
-- empty the table.
WITH held AS (
    SELECT 1 FROM {locks} AS l
    WHERE l.name = $name
    -- guard: record-owner
    AND l.owner = $owner
    -- guard: record-kept
    AND NOT l.kept
    -- guard: record-expired
    AND l.expires > {now}
    -- guard: record-locks
    FOR NO KEY UPDATE
),
written AS (
    INSERT INTO {records} AS r (name, token, number, value, written, forget_at)
    SELECT $name, $token::bigint, $number::bigint, pg_catalog.decode($value, 'hex'), {now}, {now} + $keep_for::interval
    FROM held
    ON CONFLICT (name) DO UPDATE SET
        value = CASE WHEN {repeats} THEN r.value ELSE excluded.value END,
        written = CASE WHEN {repeats} THEN r.written ELSE excluded.written END,
        forget_at = CASE WHEN {repeats} THEN r.forget_at ELSE excluded.forget_at END,
        number = CASE WHEN {repeats} THEN r.number ELSE excluded.number END,
        token = excluded.token
    RETURNING 1, {durably}
)
SELECT EXISTS (SELECT 1 FROM written) OR EXISTS (
    SELECT 1 FROM {records} WHERE name = $name AND token = $token AND number >= $number
),
    -- guard: records-logged
    NOT pg_catalog.pg_relation_is_publishable('{records}'::regclass) OR
    false

-- name: read_record(name)
-- The record of a name, the clock, and since when no record was lost: since now if the marker is
-- missing or belongs to another store, because then nobody has noticed the loss yet.
-- It names a column of the locks, so that it fails where the tables are of another version.
SELECT r.token, pg_catalog.encode(r.value, 'hex') AS value, {micros_of_written} AS written, {micros} AS now,
    {micros_of_records_since} AS complete_since
FROM (SELECT $name::text AS name) AS n
LEFT JOIN {records} AS r ON r.name = n.name
LEFT JOIN {marker} AS m ON
-- guard: records-marker
m.store = {here} AND
m.itself = m.tableoid
WHERE NOT EXISTS (SELECT expires FROM {locks} WHERE false)

-- name: forget_records(most)
-- Part of a sweep: deletes at most $most records whose time is over. Records that others have
-- locked are left to the next sweep.
DELETE FROM {records} AS r USING (
    SELECT o.name FROM {records} AS o
    -- guard: record-time
    WHERE o.forget_at <= {now}
    LIMIT $most::bigint FOR UPDATE SKIP LOCKED
) AS over
WHERE r.name = over.name

-- part: repeats
-- Whether the record is of this write already, or of a later one of the same grant.
(r.token = excluded.token
-- guard: record-number
AND r.number >= excluded.number
)
