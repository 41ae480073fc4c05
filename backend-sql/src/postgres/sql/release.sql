-- Gives $1 back if it is $2's and nobody waits for it. The row stays for its token.
UPDATE {locks} SET owner = NULL
WHERE name = $1
    -- guard: release-owner
    AND owner = $2
    AND expires_2 > {now} AND waiters IS NULL
RETURNING version
