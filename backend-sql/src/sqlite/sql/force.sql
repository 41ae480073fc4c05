-- Frees ?1, whoever has it. ?2 now, ?3 epoch, ?4 wall clock in µs. No token above 9007199254740990 = 2^53 - 2 can be
-- granted: a token out of range becomes the highest that a grant of ours may have, and a version out of range starts
-- again.
UPDATE {locks} AS l SET owner = NULL, readers = NULL, label = NULL,
    token = CASE WHEN token BETWEEN 0 AND 9007199254740990 THEN token
        ELSE ?4 + (SELECT longest_lease * 1000 FROM {settings}) END,
    version = CASE WHEN version BETWEEN 0 AND 9007199254740990 THEN version + 1 ELSE 1 END
WHERE name = ?1 AND (
    (owner IS NOT NULL AND NOT {over ?2 ?3})
    OR token NOT BETWEEN 0 AND 9007199254740990 OR version NOT BETWEEN 0 AND 9007199254740990
)
RETURNING version
