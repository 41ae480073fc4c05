-- Attempts, and what keeps an abandoned owner from a late one.

-- name: acquire(name, owner, label, lease, above)
-- Acquires a name that has no row, or whose lock_until has passed. $above is floor + 1. The new
-- values of an existing row use the clock at the time when the row was locked. The tombstone is
-- checked twice: before anything is acquired, and in the newest state of the companion row. If the
-- second check finds one, a division by zero ends the statement, so that all of it is undone, and
-- it is repeated. Then the first check finds the tombstone.
WITH taken AS (
    INSERT INTO {lock} AS l (name, lock_until, locked_at, locked_by)
    SELECT $name, {utc} + $lease, {utc}, $owner
    WHERE NOT EXISTS (
        SELECT 1 FROM {companion} AS c WHERE c.name = $name
        -- guard: not-abandoned
        AND pg_catalog.strpos(c.buried, $owner) > 0
    )
    ON CONFLICT (name) DO UPDATE
        SET lock_until = {utc} + $lease, locked_at = {utc}, locked_by = $owner
    -- guard: held
    WHERE l.lock_until <= {utc}
    RETURNING 1
)
INSERT INTO {companion} AS c (name, owner, label, token)
SELECT $name, $owner, $label,
    -- guard: floor-of-new
    greatest({micros}, $above)
FROM taken
ON CONFLICT (name) DO UPDATE SET owner = $owner, label = $label,
    -- guard: above-the-last
    token = greatest({micros}, c.token + 1, $above)
RETURNING token
    -- guard: abandoned-meanwhile
    / CASE WHEN pg_catalog.strpos(c.buried, $owner) > 0 THEN 0 ELSE 1 END
    -- No statement that is older than half a minute succeeds.
    -- guard: young
    / {young}

-- name: tombstone(name, owner)
-- Leaves a tombstone: no attempt of $owner to acquire $name may succeed any more. At most a
-- thousand such owners are remembered.
INSERT INTO {companion} AS c (name, token, buried)
-- guard: tombstone-new
VALUES ($name, 0, $owner || ',')
ON CONFLICT (name) DO UPDATE SET
    -- guard: tombstone-others
    buried = pg_catalog.left(pg_catalog.concat($owner::text, ',', c.buried), 33000)
RETURNING 1::bigint
