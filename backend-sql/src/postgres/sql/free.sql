-- Whether $1 is worth asking for by the place $2: it is free, or was given to it.
SELECT NOT EXISTS (
    SELECT 1 FROM {locks} WHERE name = $1 AND (
        (owner IS NOT NULL AND expires > {now} AND owner <> left($2, 32))
        OR (waiters IS NOT NULL AND waiters[1] <> $2 AND coalesce(turn > {now}, true))
    )
)
