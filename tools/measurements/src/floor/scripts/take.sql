-- $1 name, $2 owner, $3 token, $4 expires
INSERT INTO leasehold_compare_floor AS l VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE
SET owner = excluded.owner, token = l.token + 1, expires = excluded.expires
WHERE l.owner IS NULL OR l.expires <= 10
RETURNING token
