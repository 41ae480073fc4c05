-- Replaces a token that is invalid, or above which no token is left, by the highest that a leasehold grant may have.
UPDATE {companion} SET token = {now} + (SELECT s.longest_lease FROM {store} AS s)
WHERE name = ?1
    -- guard: repair-bad
    AND token NOT BETWEEN 0 AND 9007199254740990
