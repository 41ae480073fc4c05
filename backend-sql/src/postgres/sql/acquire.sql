-- How a client takes a lock, and how it gives an attempt up.
--
-- Times are those of the server's clock. A token is microseconds of it, and at least $floor.

-- name: insert(name, owner, label, lease, floor)
-- Takes a name that has no row, or is released or expired, and that nobody waits for. This is the
-- one round trip of an acquire, so it contains nothing that can be elsewhere.
-- If the row exists, SET computes its values by a clock that is read after the row was locked. The
-- values of a new row may be older, by the time that the statement waited for another insert: then
-- the lease ends earlier. The watermark may be older, too. Where tokens lead the clock, a sweep may
-- meanwhile have deleted a row with a token above both. So a sweep trusts a watermark only after a
-- minute, and a statement older than half a minute fails.
INSERT INTO {locks} AS l (name, owner, label, token, version, expires, kept, store, itself)
SELECT $name, $owner, $label, greatest(
    {micros},
    -- guard: watermark | S2 | below_the_watermark
    m.watermark + 1,
    $floor), 1, {now} + $lease, false,
    m.store, {locks_file}
FROM {marker} AS m WHERE {granting}
ON CONFLICT (name) DO UPDATE SET
    -- guard: token-of-the-row | S2 | an_attempt_that_waits_for_the_row | token = excluded.token,
    token = greatest({micros}, l.token + 1, $floor),
    owner = $owner, label = $label, version = l.version + 1, expires = {now} + $lease, kept = false,
    store = excluded.store, itself = excluded.itself
WHERE
    -- guard: held | S1 | a_held_lock_is_refused_with_its_holder_and_token
    (l.owner IS NULL OR l.expires <= {now}) AND
    l.waiters IS NULL AND {not_abandoned}
RETURNING token
    -- guard: young | S2 | an_attempt_that_waits_for_a_new_row
    / {young}

-- name: take(name, owner, label, lease, floor, version)
-- Takes a row that has not changed since this client read it, at $version. The row must also be
-- free: a client of the other strategy may have swept the row away and made another, which counts
-- its versions anew.
UPDATE {locks} AS l SET
    token = greatest({micros}, l.token + 1, $floor),
    owner = $owner, label = $label, version = l.version + 1, expires = {now} + $lease, kept = false,
    store = {here}, itself = {locks_file}
WHERE name = $name AND version = $version
    AND (l.owner IS NULL OR l.expires <= {now}) AND l.waiters IS NULL AND {not_abandoned}
    AND EXISTS (SELECT 1 FROM {marker} AS m WHERE {granting})
RETURNING token

-- name: retake(name, owner, label, lease, floor, version)
-- Takes a row that this client released, at $version, or at any version if that is null.
-- This statement does not read the marker. The row still exists and was granted in this very store,
-- which shows just as well that nothing was lost: what empties one of the two tables empties the
-- other, and no marker is made anew beside such a row.
UPDATE {locks} AS l SET
    token = greatest({micros}, l.token + 1, $floor),
    owner = $owner, label = $label, version = l.version + 1, expires = {now} + $lease, kept = false
WHERE name = $name AND (l.owner IS NULL OR l.expires <= {now}) AND l.waiters IS NULL AND {not_abandoned}
    -- guard: retake-store | S1 | a_row_left_behind_in_a_copied_database
    AND l.store = {here}
    -- guard: retake-itself | S1 | a_row_of_a_table_that_was_logged
    AND l.itself = {locks_file}
    AND l.version = coalesce($version, l.version)
    AND {persistence}
RETURNING token

-- name: create_row(name)
-- Makes a free row, for the optimistic strategy. Fails if the watermark that it read is too old:
-- see `insert`.
INSERT INTO {locks} (name, token, version, expires, kept)
SELECT $name, m.watermark, 0, 'epoch', false FROM {marker} AS m
ON CONFLICT DO NOTHING
RETURNING 1 / {young}

-- name: read_row(name, owner)
-- What is known of the name, and whether $owner is one of the readers that share it.
SELECT {columns}, {waiting}, coalesce({is_reader}, false) AS mine FROM {locks} AS l WHERE name = $name

-- name: abandon(name, owner)
-- Bars $owner from the name: no attempt of it succeeds any more, and it loses its lock and its
-- queue entry. A lock that was released, and is kept for a minimum hold, stays.
-- An attempt that arrived before this statement has locked the row, so this statement waits for it.
-- A later attempt finds the tombstone in the row itself. Tombstones older than an hour are dropped,
-- because no statement of such an owner is still under way. At most 1000 are kept.
-- No row is made with an old watermark: see `insert`.
-- Answers whether entries should move from the tail of the queue to its head.
WITH gone AS (
    INSERT INTO {locks} AS l (name, token, version, expires, kept, buried, buried_at)
    SELECT $name, coalesce(pg_catalog.max(m.watermark), 0), 0, {now}, false, ARRAY[$owner], ARRAY[{now}]
    FROM {marker} AS m
    ON CONFLICT (name) DO UPDATE SET
        owner = CASE WHEN l.owner = $owner
            -- guard: abandon-kept | S6 | a_clean_up_of_what_is_kept
            AND NOT l.kept
            THEN NULL ELSE l.owner END,
        turn = CASE WHEN pg_catalog.left(l.waiters[1], 32) = $owner THEN NULL ELSE l.turn END,
        (waiters, alive) = {without},
        (buried, buried_at) = (
            SELECT pg_catalog.array_agg(b.owner), pg_catalog.array_agg(b.at)
            FROM (
                SELECT $owner AS owner, {now} AS at
                UNION ALL
                (
                    SELECT o.owner, o.at FROM unnest(l.buried, l.buried_at) AS o (owner, at)
                    WHERE o.owner <> $owner AND o.at > {now} - interval '1 hour'
                    ORDER BY o.at DESC LIMIT 999
                )
            ) AS b
        )
    RETURNING {short} AS short, CASE
        WHEN (owner IS NULL OR expires <= {now} OR {reader_next}) AND waiters[1] IS NOT NULL THEN {notify_first}
    END AS notified, 1 / {young} AS young
),
forgotten AS (
    DELETE FROM {queue} WHERE name = $name AND owner = $owner
)
SELECT * FROM gone

-- part: granting
-- Whether the marker is this store's, and the quarantine is over.
true
-- guard: marker-store | S1 | an_attempt_in_a_copied_database
AND m.store = {here}
-- guard: marker-itself | S1 | an_attempt_after_the_table_was_made_anew
AND m.itself = {marker_file}
-- guard: marker-time | S1 | an_attempt_after_a_crash
-- guard: marker-time-of-a-row | S1 | a_row_that_was_looked_at
-- guard: marker-time-of-an-entry | S1 | an_entry_in_quarantine
-- guard: marker-time-of-a-hand-over | S1 | a_hand_over_in_quarantine
AND m.grants_from <= {now}
AND {persistence}

-- part: persistence
-- Whether a loss of data would empty the tables of locks, and leave the settings. It is read from
-- the server's cache of its catalog, with each grant, because an operator may change it at any
-- time.
true
-- guard: locks-unlogged | S1 | an_attempt_after(locks SET LOGGED)
AND NOT pg_catalog.pg_relation_is_publishable('{locks}'::regclass)
-- guard: marker-unlogged | S1 | an_attempt_after(marker SET LOGGED)
AND NOT pg_catalog.pg_relation_is_publishable('{marker}'::regclass)
-- guard: settings-logged | S1 | an_attempt_after(settings SET UNLOGGED)
AND pg_catalog.pg_relation_is_publishable('{settings}'::regclass)

-- part: locks_file
-- The file of the table of locks, as the server's cache of its catalog has it. Whatever writes the
-- table anew, such as SET LOGGED, SET UNLOGGED or VACUUM FULL, gives it another one.
pg_catalog.pg_relation_filenode('{locks}'::regclass)

-- part: marker_file
-- The same for the marker.
pg_catalog.pg_relation_filenode('{marker}'::regclass)

-- part: not_abandoned
-- Whether $owner was not abandoned.
true
-- guard: not-abandoned | S6 | an_abandoned_owner_takes_nothing_any_more
-- guard: not-abandoned-entry | S6 | an_entry_of_an_abandoned_owner
-- guard: not-abandoned-reader | S6 | an_abandoned_reader_joins_nothing
AND (l.buried IS NULL OR $owner <> ALL (l.buried))

-- part: here
-- The cluster and the database. A table that was made anew has another oid; a replica has its
-- primary's cluster, but its unlogged tables are empty. Neither name changes within a session, and
-- both are expensive (the server reads its control file), so a session asks once. Behind a pooler,
-- another client's session has the same names.
-- It is one line, since a broken variant leaves out the line after a guard.
coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''), pg_catalog.set_config('leasehold.here', (pg_catalog.pg_control_system()).system_identifier::text || '/' || substring(pg_catalog.pg_relation_filepath('{marker}') from '([0-9]+)/[0-9]+$'), false))

-- part: young
-- 1 if the statement began within the last half minute, by a clock that was not set back since;
-- otherwise 0. The statement divides by this. So an old statement fails, and is repeated: see
-- `insert`. This does not notice a clock that is set back, during the statement, by about as much
-- as the statement is late. Exclusion does not depend on it: a clock that is set back makes leases,
-- turns and quarantines longer, and no statement takes a lock that had not ended by some clock. A
-- token could go back only if all of this happens together:
-- - The statement itself stops for over a minute between its snapshot and its row, while other
--   sessions raise the watermark and sweep. (A wait for a row of that name is not such a stop,
--   since it keeps the row from being swept.)
-- - Meanwhile the clock is set back by over half a minute.
-- - The client has not given the statement up. It does so after `timeout`, 5 s by default, and then
--   leaves a tombstone in that very row, which the statement finds.
-- PostgreSQL shows only the wall clock to a statement that wants to know its age. To lock the
-- marker's row for each new name, as in MySQL, would make all of them pay for this case.
({now} BETWEEN pg_catalog.now() AND pg_catalog.now() + interval '30 seconds')::integer

-- part: micros
-- The server's clock, as a token.
(pg_catalog.date_part('epoch', {now}) * 1000000::double precision)::bigint

-- part: columns
-- What Rust reads of a row.
{plain_columns}, CASE WHEN owner = {shared} THEN {count_readers} END AS readers

-- part: plain_columns
-- The same without the number of readers, which costs the server a subquery.
name, owner, label, token, version, kept, {left_of_expires} AS remaining,
{left_of_turn} AS turn, pg_catalog.cardinality(waiters)::bigint + (far IS NOT NULL)::integer AS waiting,
coalesce(waiters[1], CASE WHEN waiters IS NOT NULL THEN '' END) AS first
