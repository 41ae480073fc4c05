-- Whether the entry $2 should ask for $1: a release granted the lock to it, or no live entry comes first and the lock is
-- free or open to this reader. Others may stand behind an entry that was granted the lock.
SELECT NOT EXISTS (
    SELECT 1 FROM {locks} AS l WHERE name = $1 AND CASE
        WHEN l.owner = {shared} AND l.expires > {now} AND pg_catalog.substr($2, 65, 1) = '*'
            THEN waiters[1] IS DISTINCT FROM $2
        -- guard: check-sees-grants
        WHEN owner IS NOT NULL AND expires > {now} THEN owner <> pg_catalog.left($2, 32)
        ELSE waiters IS NOT NULL AND waiters[1] <> $2 AND coalesce(turn > {now}, true)
    END
)
