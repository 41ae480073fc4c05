-- The settings that determine whether a crash may lose committed data.
SELECT name::text, setting::text FROM pg_catalog.pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')
