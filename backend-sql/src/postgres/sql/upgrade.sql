-- Upgrades from version 0, in which the settings had no such column, and from version 1, in which the whole queue stood
-- in the lock's row. All clients wait while this waits for its table locks. So it waits only briefly, and comes after
-- everything else. Queue entries of older clients are dropped, since those clients are refused from now on. Held locks
-- stay.
DO $$ DECLARE
    grantee record;
BEGIN
    IF EXISTS (
        SELECT FROM pg_catalog.pg_attribute
        WHERE attrelid = '{locks}'::regclass::oid AND attname = 'expires'::name AND NOT attisdropped
    ) THEN
        PERFORM pg_catalog.set_config('lock_timeout', '200ms', true);
        LOCK TABLE {locks}, {settings}, {marker} IN ACCESS EXCLUSIVE MODE;
        ALTER TABLE {settings} ADD COLUMN IF NOT EXISTS version integer NOT NULL DEFAULT 2;
        ALTER TABLE {settings} ALTER COLUMN version SET DEFAULT 2;
        UPDATE {settings} SET version = 2;
        ALTER TABLE {locks} RENAME COLUMN expires TO expires_2;
        ALTER TABLE {locks} RENAME COLUMN heard TO alive;
        ALTER TABLE {locks} ADD COLUMN far bigint, ADD COLUMN moved bigint, ADD COLUMN readers text;
        UPDATE {locks} SET waiters = NULL, alive = NULL, turn = NULL WHERE waiters IS NOT NULL;
        -- A role that may use the locks needs the new table of queue entries, too.
        FOR grantee IN
            SELECT DISTINCT a.grantee AS role FROM pg_catalog.pg_class AS c, pg_catalog.aclexplode(c.relacl) AS a
            WHERE c.oid = '{locks}'::regclass::oid AND a.privilege_type = 'UPDATE'::text
        LOOP
            EXECUTE pg_catalog.format(
                'GRANT SELECT, INSERT, UPDATE, DELETE ON {queue} TO %s',
                CASE WHEN grantee.role = 0::oid THEN 'PUBLIC'
                ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(grantee.role)::text) END
            );
        END LOOP;
    END IF;
END $$;
