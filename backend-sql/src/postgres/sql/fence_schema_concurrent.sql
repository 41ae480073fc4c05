-- Makes the fence's table, even if others do so at the same time. IF NOT EXISTS does not see a table whose transaction
-- has not committed: it waits for that transaction and then fails. The second try sees the table. A transaction around
-- this statement goes on.
DO $$ BEGIN
    {fence_schema.sql}
EXCEPTION WHEN unique_violation OR duplicate_table OR duplicate_object THEN
    {fence_schema.sql}
END $$;
