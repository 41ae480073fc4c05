-- Refuses tables of a role that ours is not a member of, unless it is a superuser or owns the schema or the database: its triggers would
-- run in our name. A superuser counts as a member of those roles alone that it was made a member of. Before anything is
-- written to the tables, and in the same transaction as what makes them.
DO $$ DECLARE
    refusal text := (
{theirs}
    );
BEGIN
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'LH001', MESSAGE = refusal;
    END IF;
END $$;
