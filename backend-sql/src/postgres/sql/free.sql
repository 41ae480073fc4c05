-- Whether $1 is worth asking for.
SELECT NOT EXISTS (
    SELECT 1 FROM {locks} WHERE name = $1 AND owner IS NOT NULL AND expires > {now}
)
