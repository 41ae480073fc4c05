-- An attempt and its queue entry in one step.
--
-- $entry is null for an attempt without an entry. A free lock waits $turn for the first entry. A
-- new entry counts as alive for $head_life at the head of the queue, and for $tail_life in the
-- tail.
--
-- The statement first gets the row's lock and then decides by the row that it finds. So WHERE has
-- no condition on whether the lock is free: it would skip a row that another transaction is just
-- releasing or taking.
-- A free lock is granted to the first entry, or to anybody if the queue is empty. An entry that is
-- granted nothing joins the end of the queue if it is not in it. It joins the tail if the tail is
-- not empty or the head is full.
-- The statement sees the table of queue entries as it was when the statement began. So it may miss
-- only the newest rows: heartbeats, for which `alive` in the row is the lower limit, and this
-- entry, which only its own client enters.

-- name: attempt(name, owner, label, lease, floor, entry, turn, head_life, tail_life)
-- A writer's attempt. What the owner already holds is renewed.
WITH asked AS (
    UPDATE {locks} AS l SET (
        owner, label, token, version, expires, kept, store, itself, waiters, alive, far, turn
    ) = (
        SELECT
            CASE WHEN a.takes THEN $owner ELSE l.owner END,
            CASE WHEN a.takes THEN $label ELSE l.label END,
            CASE WHEN a.takes THEN greatest({micros}, l.token + 1, $floor) ELSE l.token END,
            CASE WHEN a.takes THEN l.version + 1 ELSE l.version END,
            CASE
                WHEN a.takes THEN {now} + $lease
                WHEN a.holds AND NOT l.kept THEN greatest(l.expires, {now} + $lease)
                ELSE l.expires
            END,
            l.kept AND NOT a.takes,
            CASE WHEN a.takes THEN {here} ELSE l.store END,
            CASE WHEN a.takes THEN {locks_file} ELSE l.itself END,
            {attempt_queue}
        FROM (
            SELECT j.now, j.free, j.holds, q.entries, q.alive,
                {attempt_takes}
            FROM (
                {attempt_joins}
                FROM (
                    SELECT t.now, f.free, NOT f.free AND l.owner = $owner AS holds,
                        -- guard: ask-held | S1 | an_entry_for_a_held_name
                        f.free AND
                        EXISTS (SELECT 1 FROM {marker} AS m WHERE {granting}) AS grants
                    FROM (SELECT {now} AS now) AS t
                    CROSS JOIN LATERAL (SELECT l.owner IS NULL OR l.expires <= t.now AS free) AS f
                ) AS r
            ) AS j
            {attempt_entries}
        ) AS a
    )
    WHERE name = $name AND {not_abandoned}
    RETURNING {columns}, pg_catalog.array_position(waiters, $entry) AS position, far, {short} AS short,
        coalesce(l.owner = $owner AND expires > {now} AND NOT kept, false) AS granted,
        $entry IS NOT NULL AND far IS NOT NULL AND NOT coalesce($entry = ANY (waiters), false)
            AND NOT coalesce(l.owner = $owner AND expires > {now}, false) AS behind,
        {is_behind} AS was_behind,
        CASE
            WHEN (owner IS NULL OR expires <= {now}) AND waiters[1] <> coalesce($entry, '') THEN {notify_first}
        END AS notified
),
{attempt_enters}
SELECT * FROM asked

-- name: attempt_reader(name, owner, label, lease, floor, entry, turn, head_life, tail_life)
-- A reader's attempt. A reader may also join other readers when the lock is not free.
WITH asked AS (
    UPDATE {locks} AS l SET (
        owner, label, token, version, expires, kept, store, itself, waiters, alive, far, turn, readers
    ) = (
        SELECT
            CASE WHEN a.takes THEN {shared} ELSE l.owner END,
            CASE WHEN a.takes THEN $label ELSE l.label END,
            CASE
                WHEN a.takes AND NOT a.free THEN greatest(l.token, $floor)
                WHEN a.takes THEN greatest({micros}, l.token + 1, $floor) ELSE l.token END,
            CASE WHEN a.takes THEN l.version + 1 ELSE l.version END,
            CASE
                WHEN a.takes AND NOT a.free THEN greatest(l.expires, {now} + $lease)
                WHEN a.takes THEN {now} + $lease
                WHEN a.holds AND NOT l.kept THEN greatest(l.expires, {now} + $lease)
                ELSE l.expires
            END,
            l.kept AND NOT a.takes,
            CASE WHEN a.takes THEN {here} ELSE l.store END,
            CASE WHEN a.takes THEN {locks_file} ELSE l.itself END,
            {attempt_queue},
            CASE
                WHEN a.takes AND a.free THEN {alone}
                WHEN a.takes THEN coalesce({live_readers}, pg_catalog.jsonb_build_object()) || {alone}
                WHEN a.holds THEN l.readers || pg_catalog.jsonb_build_object(
                    $owner::text, greatest((l.readers ->> $owner::text)::bigint, {end_of_lease})
                )
                ELSE l.readers
            END
        FROM (
            SELECT j.now, j.free, j.holds, q.entries, q.alive,
                {attempt_takes}
            FROM (
                {attempt_joins}
                FROM (
                    SELECT t.now, f.free, NOT f.free AND {is_reader} AS holds,
                        (f.free OR {open}) AND
                        EXISTS (SELECT 1 FROM {marker} AS m WHERE {granting}) AS grants
                    FROM (SELECT {now} AS now) AS t
                    CROSS JOIN LATERAL (SELECT l.owner IS NULL OR l.expires <= t.now AS free) AS f
                ) AS r
            ) AS j
            {attempt_entries}
        ) AS a
    )
    WHERE name = $name AND {not_abandoned}
    RETURNING {columns}, pg_catalog.array_position(waiters, $entry) AS position, far, {short} AS short,
        coalesce({is_reader} AND expires > {now} AND NOT kept, false) AS granted,
        $entry IS NOT NULL AND far IS NOT NULL AND NOT coalesce($entry = ANY (waiters), false)
            AND NOT coalesce({is_reader} AND expires > {now}, false) AS behind,
        {is_behind} AS was_behind,
        CASE
            WHEN (owner IS NULL OR expires <= {now} OR {reader_next}) AND waiters[1] <> coalesce($entry, '') THEN {notify_first}
        END AS notified
),
{attempt_enters}
SELECT * FROM asked

-- name: append(name, owner, entry, head_life)
-- What a writer's `attempt` does with $entry if another owner holds the lock, the queue is short,
-- and all entries in it are alive by the array. It costs less than half of that, so a client tries
-- it first. If one of these conditions does not hold, it does nothing, and the client sends
-- `attempt`. So it may skip a row that another transaction is just changing, unlike `attempt`. A
-- test compares both.
UPDATE {locks} AS l SET
    waiters = pg_catalog.array_append(l.waiters, $entry::text),
    alive = pg_catalog.array_append(l.alive, {now} + $head_life::interval),
    turn = NULL
WHERE name = $name
    -- guard: append-held | L3 | an_entry_for_a_lock_that_is_free
    AND l.expires > {now}
    -- guard: append-not-own | S6 | an_entry_behind_itself
    AND l.owner <> $owner
    -- guard: append-no-tail | L3 | an_entry_behind_the_tail
    AND l.far IS NULL
    -- guard: append-room | L3 | an_entry_for_a_full_head
    AND coalesce(pg_catalog.cardinality(l.waiters) < {near}, true)
    -- guard: append-once | L3 | an_entry_that_asks_again
    AND NOT coalesce($entry = ANY (l.waiters), false)
    -- guard: append-alive | L3 | a_release_to_an_entry_behind_a_dead_one
    AND coalesce({now} < ALL (l.alive), true)
    AND {not_abandoned}
RETURNING {plain_columns}, pg_catalog.cardinality(waiters) AS position, false AS granted, false AS behind,
    -- A writer has to wait, however many they are.
    CASE WHEN owner = {shared} THEN 1::bigint END AS readers

-- part: attempt_queue
-- The new head and tail of the queue, and the turn. A clock that was set back does not make a turn
-- longer.
CASE
    WHEN a.takes THEN CASE WHEN pg_catalog.cardinality(a.entries) > 1 OR a.far IS NOT NULL THEN a.entries[2:] END
    WHEN a.far IS NOT NULL THEN coalesce(a.entries, ARRAY[]::text[])
    ELSE a.entries
END,
CASE
    WHEN a.takes THEN CASE WHEN pg_catalog.cardinality(a.entries) > 1 OR a.far IS NOT NULL THEN a.alive[2:] END
    WHEN a.far IS NOT NULL THEN coalesce(a.alive, ARRAY[]::timestamptz[])
    ELSE a.alive
END,
a.far,
CASE
    WHEN a.takes OR NOT a.free THEN NULL
    WHEN l.turn > a.now AND l.turn <= a.now + $turn::interval AND a.entries[1] = l.waiters[1]
        THEN l.turn
    ELSE a.now + $turn::interval
END

-- part: attempt_entries
-- The entries that stay at the head, and this one if it joins them. Entries that are not alive are
-- removed, and so is a first entry that did not take a free lock in time.
CROSS JOIN LATERAL (
    SELECT pg_catalog.array_agg(p.entry ORDER BY p.at) AS entries, pg_catalog.array_agg(p.alive ORDER BY p.at) AS alive
    FROM (
        SELECT w.entry, w.alive, w.at
        FROM unnest(l.waiters, l.alive) WITH ORDINALITY AS w (entry, alive, at)
        WHERE w.entry = $entry OR (
            (
                w.alive > j.now
                -- guard: ask-heartbeat | L3 | an_attempt_behind_an_old_entry
                OR EXISTS (SELECT 1 FROM {queue} AS b WHERE b.name = $name AND b.owner = pg_catalog.left(w.entry, 32) AND b.alive > j.now)
            ) AND NOT (
                w.at = 1 AND j.free
                AND coalesce(l.turn <= j.now OR l.turn > j.now + $turn::interval, false)
            )
        )
        UNION ALL
        SELECT $entry, j.now + $head_life::interval, 2147483647 WHERE j.joins AND NOT j.behind
    ) AS p
) AS q

-- part: attempt_enters
-- Enters the entry into the tail, if it joins that.
enters AS (
    INSERT INTO {queue} (name, owner, entered, entry, alive)
    SELECT $name, $owner, a.far, $entry, {now} + $tail_life FROM asked AS a WHERE a.behind AND NOT a.was_behind
    ON CONFLICT (name, owner) DO UPDATE SET entered = excluded.entered, entry = excluded.entry, alive = excluded.alive
)

-- part: attempt_joins
-- Whether the entry joins the queue, and whether it joins the tail. It does not wait alone for a
-- quarantine.
SELECT r.*,
l.far IS NOT NULL OR coalesce(pg_catalog.cardinality(l.waiters) >= {near}, false) AS behind,
$entry IS NOT NULL AND NOT r.holds AND NOT coalesce($entry = ANY (l.waiters), false)
AND (r.grants OR NOT r.free OR l.waiters IS NOT NULL)
-- guard: ask-once | L3 | an_entry_behind_that_asks_again
AND NOT {is_behind}
AS joins

-- part: attempt_takes
-- The position of the last entry in the tail, and whether the request gets the lock.
CASE WHEN j.joins AND j.behind THEN greatest({micros}, l.far + 1, l.moved + 1) ELSE l.far END AS far,
j.grants
-- guard: ask-first | L3 | a_second_entry_for_a_free_name
AND q.entries[1] IS NOT DISTINCT FROM $entry
-- guard: ask-behind | L3 | an_attempt_before_entries_behind
AND ($entry IS NOT NULL OR l.far IS NULL)
AS takes
