-- A token above which there is none, or that is none, becomes the highest that a grant of ours may have.
UPDATE {companion} SET token = {now} + (SELECT s.longest_lease FROM {store} AS s)
WHERE name = ?1
    -- guard: mend-bad
    AND token NOT BETWEEN 0 AND 9007199254740990
