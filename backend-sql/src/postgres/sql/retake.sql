-- Takes a row that this client left behind, at version $6, or at any if that is null. The other
-- arguments are those of insert.sql. That the row is still there, granted in this very store, shows as
-- well as the marker that nothing was lost: what empties the one empties the other, and no marker is
-- made anew beside a row like this. So the marker is not read.
UPDATE {locks} AS l SET
    token = greatest({micros}, l.token + 1, $5),
    owner = $2, label = $3, version = l.version + 1, expires_2 = {now} + $4, kept = false
WHERE name = $1 AND (l.owner IS NULL OR l.expires_2 <= {now}) AND l.waiters IS NULL AND {not_abandoned}
    -- guard: retake-store
    AND l.store = {here}
    AND l.itself = l.tableoid
    AND l.version = coalesce($6, l.version)
RETURNING token
