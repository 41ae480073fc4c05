-- Whether $1 is worth asking for by the place $2.
SELECT NOT EXISTS (
    SELECT 1 FROM {locks} WHERE name = $1 AND (
        (owner IS NOT NULL AND expires > {now})
        OR (waiters IS NOT NULL AND waiters[1] <> $2 AND coalesce(turn > {now}, true))
    )
)
