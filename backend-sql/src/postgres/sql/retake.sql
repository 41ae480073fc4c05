-- Takes a row that this client released, at version $6, or at any version if $6 is null. The other arguments are those of
-- insert.sql.
-- This statement does not read the marker. The row still exists and was granted in this very store, which shows just as
-- well that nothing was lost: what empties one of the two tables empties the other, and no marker is made anew beside
-- such a row.
UPDATE {locks} AS l SET
    token = greatest({micros}, l.token + 1, $5),
    owner = $2, label = $3, version = l.version + 1, expires = {now} + $4, kept = false
WHERE name = $1 AND (l.owner IS NULL OR l.expires <= {now}) AND l.waiters IS NULL AND {not_abandoned}
    -- guard: retake-store
    AND l.store = {here}
    AND l.itself = l.tableoid
    AND l.version = coalesce($6, l.version)
    AND {persistence}
RETURNING token
