-- $1 resource, $2 token. Answers the highest token seen, which is $2 itself if it is admitted.
INSERT INTO {fence} AS f (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET
    -- guard: fence
    token = greatest(f.token, $2)
RETURNING token
