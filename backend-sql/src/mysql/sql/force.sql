-- Frees ?1 whatever owner has it; ?2 is the longest lease. Above 9007199254740990 = 2^53 - 2 there is no token to grant: one that is out of its range
-- becomes the highest that a grant of ours may have, and such a version begins anew.
UPDATE {locks} SET
    expires = 0,
    token = IF(token BETWEEN 0 AND 9007199254740990, token,
        {now} + ?2),
    version = LAST_INSERT_ID(IF(version BETWEEN 0 AND 9007199254740990, version + 1, 1))
WHERE name = ?1 AND (
    expires > {now}
    OR token NOT BETWEEN 0 AND 9007199254740990 OR version NOT BETWEEN 0 AND 9007199254740990
)
