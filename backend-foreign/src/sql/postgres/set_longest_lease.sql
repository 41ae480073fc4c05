UPDATE {store} SET longest_lease = $1 WHERE id = 1
RETURNING 1::bigint
