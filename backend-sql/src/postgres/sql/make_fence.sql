-- Makes the fence's table, also where others do so at once: IF NOT EXISTS does not see what was not committed when it
-- looked, and waits for it, and fails. The second time it sees it. A transaction that this is in goes on.
DO $$ BEGIN
    {fence.sql}
EXCEPTION WHEN unique_violation OR duplicate_table OR duplicate_object THEN
    {fence.sql}
END $$;
