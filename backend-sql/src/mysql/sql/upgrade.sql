-- From version 0 to 1, where the column is not there yet. The lock that this takes stands in the way of all that read the
-- settings, as each renewal does, also while it is waited for: so it is waited for shortly, and after all else.
SET @leasehold_wait = @@SESSION.lock_wait_timeout;
SET SESSION lock_wait_timeout = 1;
SET @leasehold_step = IF(EXISTS (
    SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = TRIM(BOTH '`' FROM '{settings}') AND column_name = 'version'
), 'DO 0', 'ALTER TABLE {settings} ADD COLUMN version BIGINT NOT NULL DEFAULT 1');
PREPARE leasehold_step FROM @leasehold_step;
EXECUTE leasehold_step;
DEALLOCATE PREPARE leasehold_step;
SET SESSION lock_wait_timeout = @leasehold_wait;
