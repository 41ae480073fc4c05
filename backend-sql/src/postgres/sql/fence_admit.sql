-- $1 resource, $2 token. Answers the highest token seen, which is $2 itself if it is admitted; null if a crash would empty the
-- table.
INSERT INTO {fence} AS f (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET
    -- guard: fence
    token = greatest(f.token, $2)
RETURNING
    -- guard: fence-logged
    CASE WHEN pg_catalog.pg_relation_is_publishable(tableoid::pg_catalog.regclass) THEN token END
