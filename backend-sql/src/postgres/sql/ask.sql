-- An attempt at $1 and the place after it, in one step: the row's lock is had first, and all is decided of the row
-- that is then there. No condition of whether it is free stands behind WHERE, where it would pass over a row that
-- another is just giving up or taking.
-- $2 owner, $3 label, $4 lease, $5 floor + 1, $6 its place, or null for an attempt without one, $7 how long what is
-- free waits for the first place, $8 after how long a place that was not heard of is gone.
-- What is free is granted to the first place, or if nobody waits; what the owner holds already is renewed. A place that
-- is granted nothing is heard of, and goes to the end of the queue if it is not in it: but not to wait alone for a
-- quarantine. Places that were not heard of are gone, and so is a first one that left what is free lie; a clock that was
-- set back does not make its time longer.
UPDATE {locks} AS l SET (
    owner, label, token, version, expires, kept, store, itself, waiters, heard, turn
) = (
    SELECT
        CASE WHEN a.takes THEN $2 ELSE l.owner END,
        CASE WHEN a.takes THEN $3 ELSE l.label END,
        CASE WHEN a.takes THEN greatest({micros}, l.token + 1, $5) ELSE l.token END,
        CASE WHEN a.takes THEN l.version + 1 ELSE l.version END,
        CASE
            WHEN a.takes THEN {now} + $4
            WHEN a.holds AND NOT l.kept THEN greatest(l.expires, {now} + $4)
            ELSE l.expires
        END,
        l.kept AND NOT a.takes,
        CASE WHEN a.takes THEN {here} ELSE l.store END,
        CASE WHEN a.takes THEN l.tableoid ELSE l.itself END,
        CASE WHEN NOT a.takes THEN a.places WHEN pg_catalog.cardinality(a.places) > 1 THEN a.places[2:] END,
        CASE WHEN NOT a.takes THEN a.heard WHEN pg_catalog.cardinality(a.heard) > 1 THEN a.heard[2:] END,
        CASE
            WHEN a.takes OR NOT a.free THEN NULL
            WHEN l.turn > a.now AND l.turn <= a.now + $7::interval AND a.places[1] = l.waiters[1]
                THEN l.turn
            ELSE a.now + $7::interval
        END
    FROM (
        SELECT r.*, q.*, r.grants
            -- guard: ask-first
            AND q.places[1] IS NOT DISTINCT FROM $6
            AS takes
        FROM (
            SELECT t.now, f.free, NOT f.free AND l.owner = $2 AS holds,
                -- guard: ask-held
                f.free AND
                EXISTS (SELECT 1 FROM {marker} AS m WHERE {granting}) AS grants
            FROM (SELECT {now} AS now) AS t
            CROSS JOIN LATERAL (SELECT l.owner IS NULL OR l.expires <= t.now AS free) AS f
        ) AS r
        CROSS JOIN LATERAL (
            SELECT pg_catalog.array_agg(p.place ORDER BY p.at) AS places, pg_catalog.array_agg(p.heard ORDER BY p.at) AS heard
            FROM (
                SELECT w.place, CASE WHEN w.place = $6 THEN r.now ELSE w.heard END AS heard, w.at
                FROM unnest(l.waiters, l.heard) WITH ORDINALITY AS w (place, heard, at)
                WHERE w.place = $6 OR (
                    w.heard > r.now - $8::interval AND NOT (
                        w.at = 1 AND r.free
                        AND coalesce(l.turn <= r.now OR l.turn > r.now + $7::interval, false)
                    )
                )
                UNION ALL
                SELECT $6, r.now, 2147483647
                WHERE $6 IS NOT NULL AND NOT coalesce($6 = ANY (l.waiters), false)
                    AND NOT r.holds AND (r.grants OR NOT r.free OR l.waiters IS NOT NULL)
            ) AS p
        ) AS q
    ) AS a
)
WHERE name = $1 AND {unburied}
RETURNING {columns}, pg_catalog.array_position(waiters, $6) AS place,
    coalesce(owner = $2 AND expires > {now} AND NOT kept, false) AS granted,
    CASE
        WHEN (owner IS NULL OR expires <= {now}) AND waiters[1] <> coalesce($6, '') THEN {tell_first}
    END
