-- Replaces a token that is invalid, or above which no token is left, by the highest that a leasehold grant may have.
UPDATE {companion} AS c SET token = {micros} + (SELECT s.longest_lease FROM {store} AS s)
WHERE c.name = $1
    -- guard: repair-bad
    AND c.token NOT BETWEEN 0 AND 9007199254740990
RETURNING 1::bigint
