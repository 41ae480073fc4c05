-- A token above which there is none, or that is none, becomes the highest that a grant of ours may have.
UPDATE {companion} AS c SET token = {micros} + (SELECT s.longest_lease FROM {store} AS s)
WHERE c.name = $1
    -- guard: mend-bad
    AND c.token NOT BETWEEN 0 AND 9007199254740990
RETURNING 1::bigint
