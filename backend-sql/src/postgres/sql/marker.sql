-- The marker, which shows a loss of data, and the quarantine that follows one.
--
-- $longest is the longest that the longest lease ever was, as far as this client knows. A promoted
-- standby may not have received the last raise.
--
-- Whatever makes the marker anew, or makes another store's ours, sets `records_since` to now.

-- name: quarantine
-- For how long nothing is granted. No row if the marker is missing or belongs to another store.
SELECT {left_of_grants_from}
FROM {marker} AS m WHERE m.store = {here} AND m.itself = {marker_file}

-- name: make_marker(longest)
-- After a loss of data: grants nothing for the longest lease, unless the quarantine is off. Leaves
-- a correct marker alone. Rows that still exist prove nothing any more.
-- Fails instead of waiting for a row that another transaction has locked, because meanwhile no
-- renewal would get the others.
WITH trusted AS (
    SELECT name FROM {locks} WHERE store IS NOT NULL
    FOR UPDATE NOWAIT
),
doubted AS (
    UPDATE {locks} AS l SET store = NULL FROM trusted WHERE l.name = trusted.name
)
INSERT INTO {marker} AS m (id, store, itself, grants_from, watermark, raised, records_since)
SELECT 1, {here}, {marker_file}, {now} + s.held_back, 0, 'epoch',
    -- guard: records-since-the-loss | S7 | a_record_from_before_a_crash | 'epoch'
    {now}
FROM (
    SELECT CASE WHEN quarantined THEN greatest(quarantine
        -- guard: longest-heard-of/first | S1 | a_raise_that_was_not_heard_of |
        --   , least($1, interval '0')
        , $longest
        ) ELSE interval '0' END AS held_back
    FROM {settings}
) AS s
ON CONFLICT (id) DO UPDATE SET
    store = excluded.store, itself = excluded.itself, records_since = excluded.records_since,
    grants_from = {now} + (
        SELECT CASE WHEN quarantined THEN greatest(quarantine
            -- guard: longest-heard-of/again | S1 | a_raise_that_was_not_heard_of |
            --   , least($1, interval '0')
            , $longest
            ) ELSE interval '0' END
        FROM {settings}
    )
WHERE (m.store, m.itself) <> (excluded.store, excluded.itself)

-- name: open_at_once
-- The operator states that nobody can hold a lock of this store.
INSERT INTO {marker} AS m (id, store, itself, grants_from, watermark, raised, records_since)
VALUES (1, {here}, {marker_file}, 'epoch', 0, 'epoch', {now})
ON CONFLICT (id) DO UPDATE SET
    store = excluded.store, itself = excluded.itself, grants_from = excluded.grants_from,
    records_since = {records_since}

-- name: set_records_complete
-- The operator states that no record was lost.
UPDATE {marker} SET records_since = 'epoch' WHERE store = {here} AND itself = {marker_file}

-- name: distrust_rows
-- Removes from all rows the proof that no data was lost (see `retake`), while nothing is granted.
-- Skips rows that others have locked, so that no renewal waits. Answers whether any row was
-- skipped.
WITH trusted AS (
    SELECT name FROM {locks} WHERE store IS NOT NULL
        AND EXISTS (SELECT 1 FROM {marker} WHERE grants_from > {now})
),
free AS (
    SELECT name FROM {locks} WHERE name IN (SELECT name FROM trusted) FOR UPDATE SKIP LOCKED
),
doubted AS (
    UPDATE {locks} AS l SET store = NULL FROM free WHERE l.name = free.name
    RETURNING 1
)
SELECT (SELECT pg_catalog.count(*) FROM trusted) > (SELECT pg_catalog.count(*) FROM doubted)

-- name: writers
-- The transactions that write to the locks now, or wait for the table. One that waits may already
-- have its snapshot, if one snapshot serves all statements of a transaction.
SELECT DISTINCT l.virtualtransaction FROM pg_catalog.pg_locks AS l
JOIN pg_catalog.pg_database AS d ON d.oid = l.database
WHERE d.datname = pg_catalog.current_database() AND l.relation = '{locks}'::regclass::oid
    AND l.mode = 'RowExclusiveLock'

-- name: reset_watermark(longest)
-- The first step of setting the tokens back: nothing is granted for a whole quarantine, even if the
-- quarantine is off. When it ends, the clock is past all tokens that led it by no more than they
-- may. `distrust_rows` and `reset_tokens` follow. The last step is this statement again, since a
-- sweep may have read the old tokens.
INSERT INTO {marker} AS m (id, store, itself, grants_from, watermark, raised, records_since)
SELECT 1, {here}, {marker_file}, {now} + greatest(quarantine, $longest), 0, 'epoch', {now} FROM {settings}
ON CONFLICT (id) DO UPDATE SET
    store = excluded.store, itself = excluded.itself, watermark = 0, raised = 'epoch',
    records_since = {records_since},
    grants_from = greatest(m.grants_from, excluded.grants_from)

-- name: reset_tokens(lead)
-- Sets tokens that lead the clock by more than $lead microseconds back to the clock; no grant of
-- ours has such a token. Skips rows that others have locked, so that no renewal waits. Answers
-- whether any row was skipped.
WITH ahead AS (
    SELECT name, {micros} AS clock FROM {locks} WHERE token > {micros} + $lead
),
free AS (
    SELECT name FROM {locks} WHERE name IN (SELECT name FROM ahead) FOR UPDATE SKIP LOCKED
),
lowered AS (
    UPDATE {locks} AS l SET token = ahead.clock
    FROM free JOIN ahead ON ahead.name = free.name WHERE l.name = free.name
    RETURNING 1
)
SELECT (SELECT pg_catalog.count(*) FROM ahead) > (SELECT pg_catalog.count(*) FROM lowered)

-- part: records_since
-- What a statement that writes the marker `m` sets: a marker of another store tells nothing of our
-- records.
CASE WHEN (m.store, m.itself) = (excluded.store, excluded.itself) THEN m.records_since ELSE excluded.records_since END
