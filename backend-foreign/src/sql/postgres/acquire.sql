-- Acquires a name that has no row, or whose lock_until has passed. $1 name, $2 owner, $3 label, $4 lease, $5 floor + 1.
-- The new values of an existing row use the clock at the time when the row was locked. The tombstone is checked twice: before
-- anything is acquired, and in the newest state of the companion row. If the second check finds one, a division by zero ends the
-- statement, so that all of it is undone, and it is repeated. Then the first check finds the tombstone.
WITH taken AS (
    INSERT INTO {lock} AS l (name, lock_until, locked_at, locked_by)
    SELECT $1, {utc} + $4, {utc}, $2
    WHERE NOT EXISTS (
        SELECT 1 FROM {companion} AS c WHERE c.name = $1
        -- guard: not-abandoned
        AND pg_catalog.strpos(c.buried, $2) > 0
    )
    ON CONFLICT (name) DO UPDATE SET lock_until = {utc} + $4, locked_at = {utc}, locked_by = $2
    -- guard: held
    WHERE l.lock_until <= {utc}
    RETURNING 1
)
INSERT INTO {companion} AS c (name, owner, label, token)
SELECT $1, $2, $3,
    -- guard: floor-of-new
    greatest({micros}, $5)
FROM taken
ON CONFLICT (name) DO UPDATE SET owner = $2, label = $3,
    -- guard: above-the-last
    token = greatest({micros}, c.token + 1, $5)
RETURNING token
    -- guard: abandoned-meanwhile
    / CASE WHEN pg_catalog.strpos(c.buried, $2) > 0 THEN 0 ELSE 1 END
    -- No statement that is older than half a minute succeeds.
    -- guard: young
    / {young}
