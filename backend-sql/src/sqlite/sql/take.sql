-- Takes a row that has not changed since this client read it: version ?9. The other arguments are those of insert.sql.
-- The row must also be free: a client of the other strategy may have swept the row away and made another, which counts
-- its versions anew.
UPDATE {locks} AS l SET
    -- guard: take-token
    token = max(?7, token + 1, ?8),
    -- guard: take-alone
    readers = NULL,
    owner = ?2, label = ?3, version = version + 1, lease = ?4, expires = ?5 + ?4, epoch = ?6, kept = 0
WHERE name = ?1 AND version = ?9 AND (owner IS NULL OR {over ?5 ?6})
    -- guard: take-abandoned
    AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = ?2)
    -- guard: take-barging
    AND NOT {behind ?5 ?6 ?7}
RETURNING token
