-- Gives $1 back if it is $2's. The row stays for its token.
UPDATE {locks} SET owner = NULL, label = NULL, version = version + 1
WHERE name = $1 AND owner = $2 AND expires > {now}
RETURNING version
