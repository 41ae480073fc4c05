-- From version 0, where the settings have no such column yet, and from 1, where the whole queue stood in the row of the
-- lock. The locks that this takes stand in the way of all clients, also while they are waited for: so they are waited for
-- shortly, and after all else. Places of older clients are forgotten: those are refused from here on. Locks that are held
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
        -- Whoever may use the locks is to use the places, which are new.
        FOR grantee IN
            SELECT DISTINCT a.grantee AS role FROM pg_catalog.pg_class AS c, pg_catalog.aclexplode(c.relacl) AS a
            WHERE c.oid = '{locks}'::regclass::oid AND a.privilege_type = 'UPDATE'::text
        LOOP
            EXECUTE pg_catalog.format(
                'GRANT SELECT, INSERT, UPDATE, DELETE ON {places} TO %s',
                CASE WHEN grantee.role = 0::oid THEN 'PUBLIC'
                ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(grantee.role)::text) END
            );
        END LOOP;
    END IF;
END $$;
