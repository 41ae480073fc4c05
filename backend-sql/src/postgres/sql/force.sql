-- Frees $1, whoever has it, and notifies the first waiter. No token above 9007199254740990 = 2^53 - 2 can be granted: a
-- token out of range becomes the highest that a grant of ours may have, and a version out of range starts again at 0.
UPDATE {locks} SET owner = NULL,
    token = CASE WHEN token BETWEEN 0 AND 9007199254740990 THEN token ELSE {micros} + (
        SELECT (pg_catalog.date_part('epoch', quarantine) * 1000000::double precision)::bigint FROM {settings}
    ) END,
    version = CASE WHEN version BETWEEN 0 AND 9007199254740990 THEN version ELSE 0 END
WHERE name = $1 AND (
    (owner IS NOT NULL AND expires > {now})
    OR token NOT BETWEEN 0 AND 9007199254740990 OR version NOT BETWEEN 0 AND 9007199254740990
)
RETURNING version, CASE WHEN waiters[1] IS NOT NULL THEN {notify_first} END
