-- Lets $1 expire after $3 if it is $2's.
UPDATE {locks} SET expires_2 = {now} + $3, kept = true
WHERE name = $1 AND owner = $2 AND expires_2 > {now}
RETURNING version
