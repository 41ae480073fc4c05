-- The fence: the highest token seen for each resource.

-- name: fence_schema
-- The highest token seen for each resource.
CREATE TABLE IF NOT EXISTS {fence} (
    resource TEXT    NOT NULL PRIMARY KEY,
    token    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- name: admit(resource, token)
-- Answers no row for a stale token.
INSERT INTO {fence} (resource, token) VALUES ($resource, $token)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token
-- guard: fence | S2 | a_stale_write
WHERE excluded.token >= token
RETURNING token

-- name: admitted(resource)
-- The highest token seen.
SELECT token FROM {fence} WHERE resource = $resource
