-- Lets $1 expire after $3 if it is $2's.
UPDATE {locks} SET expires = {now} + $3, kept = true
WHERE name = $1 AND owner = $2 AND expires > {now}
RETURNING version
