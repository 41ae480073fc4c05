-- Gives ?1, which is ?6's, to ?2, if no live entry waits for it. The answer is that of insert.sql, and ?1 to ?5 are its
-- arguments.
UPDATE {locks} SET
    token = LAST_INSERT_ID(GREATEST({now}, token + 1, ?5)),
    owner = ?2, label = ?3, version = version + 1, expires = {now} + ?4,
    -- The holder has checked its token, and this one is higher.
    kept = 0
WHERE name = ?1
    -- guard: hand-on-owner
    AND owner = ?6
    -- guard: hand-on-kept
    AND kept <> 1
    -- guard: hand-on-expired
    AND expires > {now}
    AND {not_abandoned} AND NOT {behind}
