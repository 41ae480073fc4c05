-- The place $3 of the name $1 is given up, and so is what its owner $2 was granted. If that leaves
-- the lock free for the next, it is told.
UPDATE {locks} AS l SET
    owner = CASE WHEN l.owner = $2 THEN NULL ELSE l.owner END,
    turn = CASE WHEN l.waiters[1] = $3 THEN NULL ELSE l.turn END,
    (waiters, heard) = (
        SELECT pg_catalog.array_agg(p.place ORDER BY p.at), pg_catalog.array_agg(p.heard ORDER BY p.at)
        FROM unnest(l.waiters, l.heard) WITH ORDINALITY AS p (place, heard, at)
        WHERE p.place <> $3
    )
WHERE name = $1 AND (l.owner = $2 OR $3 = ANY (l.waiters))
RETURNING CASE
    WHEN (owner IS NULL OR expires <= {now}) AND waiters IS NOT NULL THEN {tell_first}
END
