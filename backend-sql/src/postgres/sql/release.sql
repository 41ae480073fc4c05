-- Releases $1 if it is $2's and nobody waits for it. The row stays, since it keeps the token.
UPDATE {locks} SET owner = NULL
WHERE name = $1
    -- guard: release-owner
    AND owner = $2
    AND expires > {now} AND waiters IS NULL
RETURNING version
