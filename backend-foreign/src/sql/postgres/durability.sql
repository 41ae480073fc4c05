-- What decides on whether a crash may lose what was committed.
SELECT name::text, setting::text FROM pg_catalog.pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')
