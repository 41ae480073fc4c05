-- What insert.sql does with a row that is there, for a third of the cost. The arguments are the same; 0
-- is told also where the row is not there.
UPDATE {locks} SET
    token = LAST_INSERT_ID(IF(expires <= {now}, GREATEST({now}, token + 1, ?5), token)),
    owner = ?2, label = ?3, version = version + 1, kept = 0,
    expires = GREATEST(expires, {now} + ?4)
WHERE name = ?1 AND {takes}
