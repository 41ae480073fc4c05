-- From version 1 to 2. From now on each statement of an older client fails. What schema.sql makes besides comes after
-- this, in the same transaction.
ALTER TABLE {locks} RENAME COLUMN expires TO expires_2;
ALTER TABLE {locks} ADD COLUMN bell TEXT;
ALTER TABLE {locks} ADD COLUMN readers TEXT;
UPDATE {settings} SET version = 2;
