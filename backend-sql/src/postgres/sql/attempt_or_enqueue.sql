-- An attempt at the name $1 and its queue entry in one step. The statement first gets the row's lock and then decides by
-- the row that it finds. So WHERE has no condition on whether the lock is free: it would skip a row that another
-- transaction is just releasing or taking.
-- $2 owner, $3 label, $4 lease, $5 floor + 1, $6 the entry, or null for an attempt without one, $7 for how long a free
-- lock waits for the first entry, $8 for how long a new entry at the head of the queue counts as alive, $9 the same for a
-- new entry in the tail.
-- A free lock is granted to the first entry, or to anybody if the queue is empty. What the owner already holds is
-- renewed. An entry that is granted nothing joins the end of the queue if it is not in it, but it does not wait alone for
-- a quarantine. It joins the tail if the tail is not empty or the head is full. Entries at the head that are not alive
-- are removed, and so is a first entry that did not take a free lock in time. A clock that was set back does not make
-- that time longer.
-- {attempt_…} stands for what differs for a reader, which may also join other readers when the lock is not free.
-- The statement sees the table of queue entries as it was when the statement began. So it may miss only the newest rows:
-- heartbeats, for which `alive` in the row is the lower limit, and this entry, which only its own client enters.
WITH asked AS (
    UPDATE {locks} AS l SET (
        owner, label, token, version, expires, kept, store, itself, waiters, alive, far, turn {attempt_column}
    ) = (
        SELECT
            CASE WHEN a.takes THEN {attempt_owner} ELSE l.owner END,
            CASE WHEN a.takes THEN $3 ELSE l.label END,
            CASE {attempt_token} WHEN a.takes THEN greatest({micros}, l.token + 1, $5) ELSE l.token END,
            CASE WHEN a.takes THEN l.version + 1 ELSE l.version END,
            CASE
                {attempt_expires}
                WHEN a.takes THEN {now} + $4
                WHEN a.holds AND NOT l.kept THEN greatest(l.expires, {now} + $4)
                ELSE l.expires
            END,
            l.kept AND NOT a.takes,
            CASE WHEN a.takes THEN {here} ELSE l.store END,
            CASE WHEN a.takes THEN l.tableoid ELSE l.itself END,
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
                WHEN l.turn > a.now AND l.turn <= a.now + $7::interval AND a.entries[1] = l.waiters[1]
                    THEN l.turn
                ELSE a.now + $7::interval
            END
            {attempt_readers}
        FROM (
            SELECT j.now, j.free, j.holds, q.entries, q.alive,
                CASE WHEN j.joins AND j.behind THEN greatest({micros}, l.far + 1, l.moved + 1) ELSE l.far END AS far,
                j.grants
                -- guard: ask-first
                AND q.entries[1] IS NOT DISTINCT FROM $6
                -- guard: ask-behind
                AND ($6 IS NOT NULL OR l.far IS NULL)
                AS takes
            FROM (
                SELECT r.*,
                    l.far IS NOT NULL OR coalesce(pg_catalog.cardinality(l.waiters) >= {near}, false) AS behind,
                    $6 IS NOT NULL AND NOT r.holds AND NOT coalesce($6 = ANY (l.waiters), false)
                    AND (r.grants OR NOT r.free OR l.waiters IS NOT NULL)
                    -- guard: ask-once
                    AND NOT {is_behind}
                    AS joins
                FROM (
                    SELECT t.now, f.free, NOT f.free AND {attempt_mine} AS holds,
                        -- guard: ask-held
                        {attempt_free} AND
                        EXISTS (SELECT 1 FROM {marker} AS m WHERE {granting}) AS grants
                    FROM (SELECT {now} AS now) AS t
                    CROSS JOIN LATERAL (SELECT l.owner IS NULL OR l.expires <= t.now AS free) AS f
                ) AS r
            ) AS j
            CROSS JOIN LATERAL (
                SELECT pg_catalog.array_agg(p.entry ORDER BY p.at) AS entries, pg_catalog.array_agg(p.alive ORDER BY p.at) AS alive
                FROM (
                    SELECT w.entry, w.alive, w.at
                    FROM unnest(l.waiters, l.alive) WITH ORDINALITY AS w (entry, alive, at)
                    WHERE w.entry = $6 OR (
                        (
                            w.alive > j.now
                            -- guard: ask-heartbeat
                            OR EXISTS (SELECT 1 FROM {queue} AS b WHERE b.name = $1 AND b.owner = pg_catalog.left(w.entry, 32) AND b.alive > j.now)
                        ) AND NOT (
                            w.at = 1 AND j.free
                            AND coalesce(l.turn <= j.now OR l.turn > j.now + $7::interval, false)
                        )
                    )
                    UNION ALL
                    SELECT $6, j.now + $8::interval, 2147483647 WHERE j.joins AND NOT j.behind
                ) AS p
            ) AS q
        ) AS a
    )
    WHERE name = $1 AND {not_abandoned}
    RETURNING {columns}, pg_catalog.array_position(waiters, $6) AS position, far, {short} AS short,
        coalesce({attempt_mine} AND expires > {now} AND NOT kept, false) AS granted,
        $6 IS NOT NULL AND far IS NOT NULL AND NOT coalesce($6 = ANY (waiters), false)
            AND NOT coalesce({attempt_mine} AND expires > {now}, false) AS behind,
        {is_behind} AS was_behind,
        CASE
            WHEN (owner IS NULL OR expires <= {now} {attempt_tells}) AND waiters[1] <> coalesce($6, '') THEN {notify_first}
        END AS notified
),
enters AS (
    INSERT INTO {queue} (name, owner, entered, entry, alive)
    SELECT $1, $2, a.far, $6, {now} + $9 FROM asked AS a WHERE a.behind AND NOT a.was_behind
    ON CONFLICT (name, owner) DO UPDATE SET entered = excluded.entered, entry = excluded.entry, alive = excluded.alive
)
SELECT * FROM asked
