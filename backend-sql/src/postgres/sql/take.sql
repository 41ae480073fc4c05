-- Takes a row that has not changed since this client read it: version $6. The other arguments are those of insert.sql.
-- The row must also be free: a client of the other strategy may have swept the row away and made another, which counts
-- its versions anew.
UPDATE {locks} AS l SET
    token = greatest({micros}, l.token + 1, $5),
    owner = $2, label = $3, version = l.version + 1, expires = {now} + $4, kept = false,
    store = {here}, itself = '{locks}'::regclass
WHERE name = $1 AND version = $6
    AND (l.owner IS NULL OR l.expires <= {now}) AND l.waiters IS NULL AND {not_abandoned}
    AND EXISTS (SELECT 1 FROM {marker} AS m WHERE {granting})
RETURNING token
