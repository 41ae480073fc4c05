-- From version 0 to 1.
ALTER TABLE {settings} ADD COLUMN version INTEGER NOT NULL DEFAULT 1
