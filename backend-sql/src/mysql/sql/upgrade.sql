-- From version 0, where the settings have no such column yet, and from 1. The locks that this takes stand in the way of all that
-- use the tables, as each renewal does, also while they are waited for: so they are waited for shortly, and after all else. Each
-- statement of an older client fails from the new name of a column on. The number comes last.
SET @leasehold_wait = @@SESSION.lock_wait_timeout;
SET SESSION lock_wait_timeout = 1;
SET @leasehold_step = IF(EXISTS (
    SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = TRIM(BOTH '`' FROM '{settings}') AND column_name = 'version'
), 'DO 0', 'ALTER TABLE {settings} ADD COLUMN version BIGINT NOT NULL DEFAULT 1');
PREPARE leasehold_step FROM @leasehold_step;
EXECUTE leasehold_step;
DEALLOCATE PREPARE leasehold_step;
SET @leasehold_step = IF(EXISTS (
    SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = TRIM(BOTH '`' FROM '{locks}') AND column_name = 'expires'
), 'ALTER TABLE {locks} RENAME COLUMN expires TO expires_2', 'DO 0');
PREPARE leasehold_step FROM @leasehold_step;
EXECUTE leasehold_step;
DEALLOCATE PREPARE leasehold_step;
SET @leasehold_step = IF(EXISTS (
    SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = TRIM(BOTH '`' FROM '{locks}') AND column_name = 'readers'
), 'DO 0', 'ALTER TABLE {locks} ADD COLUMN readers BLOB');
PREPARE leasehold_step FROM @leasehold_step;
EXECUTE leasehold_step;
DEALLOCATE PREPARE leasehold_step;
UPDATE {settings} SET version = 2 WHERE version < 2;
SET SESSION lock_wait_timeout = @leasehold_wait;
