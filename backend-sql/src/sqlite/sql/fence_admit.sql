-- ?1 resource, ?2 token. Answers no row for a stale token.
INSERT INTO {fence} (resource, token) VALUES (?1, ?2)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token
-- guard: fence
WHERE excluded.token >= token
RETURNING token
