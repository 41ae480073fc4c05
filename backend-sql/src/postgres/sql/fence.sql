-- The fence of a database that the locks guard.

-- name: fence_schema
{fence_table}
{refuse_tables}

-- name: fence_schema_concurrent
-- Makes the fence's table, even if others do so at the same time. IF NOT EXISTS does not see a
-- table whose transaction has not committed: it waits for that transaction and then fails. The
-- second try sees the table. A transaction around this statement goes on. Answers why the table is
-- refused instead of failing: an error would end the user's transaction.
DO $$ BEGIN
    {fence_table}
EXCEPTION WHEN unique_violation OR duplicate_table OR duplicate_object THEN
    {fence_table}
END $$;
{refused_table}

-- name: admit(resource, token)
-- Answers the highest token seen, which is $token itself if it is admitted; null if a crash would
-- empty the table.
INSERT INTO {fence} AS f (resource, token) VALUES ($resource, $token)
ON CONFLICT (resource) DO UPDATE SET
    -- guard: fence | S2 | a_stale_write | token = $2
    token = greatest(f.token, $token)
RETURNING
    -- guard: fence-logged | S2 | a_write_after_the_fence_became_unlogged | token
    CASE WHEN pg_catalog.pg_relation_is_publishable(tableoid::pg_catalog.regclass) THEN token END

-- part: fence_table
-- The highest token seen for each resource. The table is logged, since it must be as durable as the
-- data that it guards.
CREATE TABLE IF NOT EXISTS {fence} (
    resource text   COLLATE "C" NOT NULL PRIMARY KEY,
    token    bigint NOT NULL
);
