-- Takes a row that has not changed since this client read or released it: at version ?6, or at any if that
-- is null. The other arguments, and the answer, are those of insert.sql, which costs three
-- times as much. It must be free besides: a client of the other strategy may have swept the row away and
-- made another, which counts its versions anew.
-- ?7 is 2 if this client checks the token afterwards, and 0 if it has held the row before. But a row may be another one
-- since, and its token may not be checked.
UPDATE {locks} SET
    token = LAST_INSERT_ID(GREATEST({now}, token + 1, ?5)),
    owner = ?2, label = ?3, version = version + 1, expires = {now} + ?4, kept = ?7
WHERE name = ?1 AND version = IFNULL(?6, version) AND expires <= {now} AND {not_abandoned}
    AND NOT {behind}
    -- guard: take-checked
    AND (?7 = 2 OR kept <> 2)
