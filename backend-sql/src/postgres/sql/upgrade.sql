-- From version 0 to 1, where the column is not there yet. The lock that this takes stands in the way of all that read the
-- settings, as each renewal does, also while it is waited for: so it is waited for shortly, and after all else.
DO $$ BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_catalog.pg_attribute
        WHERE attrelid = '{settings}'::regclass::oid AND attname = 'version'::name AND NOT attisdropped
    ) THEN
        PERFORM pg_catalog.set_config('lock_timeout', '200ms', true);
        ALTER TABLE {settings} ADD COLUMN IF NOT EXISTS version integer NOT NULL DEFAULT 1;
    END IF;
END $$;
