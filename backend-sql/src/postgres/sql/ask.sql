-- The place $2 of the name $1 says that it is there; it goes to the end if it is not in the queue and
-- does not hold the lock already. With no $2 the queue is only looked after. Places that were not heard
-- of for $4 are gone, and so is a first one that left what is free lie for $3; a clock that was set back
-- does not make it longer.
UPDATE {locks} AS l SET (waiters, heard, turn) = (
    SELECT array_agg(q.place ORDER BY q.at), array_agg(q.heard ORDER BY q.at), CASE
        WHEN l.owner IS NOT NULL AND l.expires > {now} THEN NULL
        WHEN l.turn > {now} AND l.turn <= {now} + $3::interval
            AND (array_agg(q.place ORDER BY q.at))[1] = l.waiters[1] THEN l.turn
        ELSE {now} + $3::interval
    END
    FROM (
        SELECT p.place, CASE WHEN p.place = $2 THEN {now} ELSE p.heard END AS heard, p.at
        FROM unnest(l.waiters, l.heard) WITH ORDINALITY AS p (place, heard, at)
        WHERE p.place = $2 OR (
            p.heard > {now} - $4::interval AND NOT (
                p.at = 1 AND (l.owner IS NULL OR l.expires <= {now})
                AND coalesce(l.turn <= {now} OR l.turn > {now} + $3::interval, false)
            )
        )
        UNION ALL
        SELECT $2, {now}, 2147483647
        WHERE $2 IS NOT NULL AND NOT coalesce($2 = ANY (l.waiters), false)
            AND NOT coalesce(l.owner = left($2, 32) AND l.expires > {now}, false)
    ) AS q
)
WHERE name = $1
    AND (l.waiters IS NOT NULL OR (l.owner IS NOT NULL AND l.expires > {now}))
    AND (l.buried IS NULL OR coalesce(left($2, 32), '') <> ALL (l.buried))
RETURNING {columns}, array_position(waiters, $2) AS place, CASE
    WHEN (owner IS NULL OR expires <= {now}) AND waiters[1] <> coalesce($2, '') THEN {tell_first}
END
