-- Whether $1 is worth asking for by the place $2: it was given to it, or it is free, or a reader may join others, and nobody goes first. Who
-- was given it may have others behind it.
SELECT NOT EXISTS (
    SELECT 1 FROM {locks} AS l WHERE name = $1 AND CASE
        WHEN l.owner = {shared} AND l.expires_2 > {now} AND pg_catalog.substr($2, 65, 1) = '*'
            THEN waiters[1] IS DISTINCT FROM $2
        -- guard: look-sees-grants
        WHEN owner IS NOT NULL AND expires_2 > {now} THEN owner <> pg_catalog.left($2, 32)
        ELSE waiters IS NOT NULL AND waiters[1] <> $2 AND coalesce(turn > {now}, true)
    END
)
