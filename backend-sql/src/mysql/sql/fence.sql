-- The fence, in the database that the lock protects.

-- name: fence_schema
-- The highest token seen for each resource. Resources are bytes, because under a collation two
-- different ones could be equal.
CREATE TABLE IF NOT EXISTS {fence} (
    resource VARBINARY(512) NOT NULL PRIMARY KEY,
    token    BIGINT         NOT NULL
) ENGINE = InnoDB

-- name: admit(resource, token)
-- Notes $token. The insert id is the highest token of this resource: $token, or the one that was
-- there.
INSERT INTO {fence} (resource, token) VALUES ($resource, LAST_INSERT_ID($token))
ON DUPLICATE KEY UPDATE
    -- guard: fence | S2 | a_stale_write | token = LAST_INSERT_ID(GREATEST(?, 0))
    token = LAST_INSERT_ID(GREATEST(token, $token))
