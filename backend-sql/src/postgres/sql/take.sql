-- Takes a row that is as it was when we looked: at version $6. The other arguments are those of
-- insert.sql. It must be free besides: a client of the other strategy may have swept the row away and
-- made another, which counts its versions anew.
UPDATE {locks} SET
    token = greatest({now}, token + 1, $5),
    owner = $2, label = $3, version = version + 1, lease = $4, expires = {now} + $4,
    kept = false
WHERE name = $1 AND version = $6 AND (owner IS NULL OR expires <= {now})
    AND {granting} AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = $2)
RETURNING token
