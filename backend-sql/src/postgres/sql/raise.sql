-- Raises the token of $1 to $3 if it is $2's.
UPDATE {locks} AS l SET token = greatest(l.token, $3)
WHERE name = $1 AND (owner = $2 OR {is_reader}) AND expires > {now}
RETURNING version
