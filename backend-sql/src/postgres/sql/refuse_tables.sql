-- Refuses tables of a role that ours is not a member of, because that role's triggers would run in our name. Superusers
-- and the owners of the schema and of the database are trusted. If our role is a superuser, it counts only as a member of
-- those roles that it was made a member of. This runs before anything is written to the tables, in the transaction that
-- makes them.
DO $$ DECLARE
    refusal text := (
{refused_table}
    );
BEGIN
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'LH001', MESSAGE = refusal;
    END IF;
END $$;
