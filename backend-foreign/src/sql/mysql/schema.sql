-- ShedLock's own table, leasehold's companion table, and the settings. Times are the server's UTC. A TIMESTAMP, as in ShedLock's
-- documentation, would be converted by the session's time zone. In the companion table names are bytes, so no collation makes two
-- of them equal.
CREATE TABLE IF NOT EXISTS {lock} (
    name       VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    lock_until DATETIME(3)  NOT NULL,
    locked_at  DATETIME(3)  NOT NULL,
    locked_by  VARCHAR(255) NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {companion} (
    name   VARBINARY(1020) NOT NULL PRIMARY KEY,
    owner  VARBINARY(32),           -- hexadecimal digits; of the last holder that was a leasehold client
    label  VARBINARY(255),          -- the owner's label, for people
    token  BIGINT          NOT NULL, -- of the last holder that was a leasehold client
    buried MEDIUMBLOB               -- owners that must never be granted anything any more, each with a comma behind it
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {store} (
    id            INT           NOT NULL PRIMARY KEY, -- 1
    version       BIGINT        NOT NULL,             -- of the companion and of this table
    longest_lease BIGINT        NOT NULL,             -- in microseconds
    identity      VARBINARY(32) NOT NULL              -- which store this is: made once
) ENGINE = InnoDB;

INSERT IGNORE INTO {store} (id, version, longest_lease, identity) VALUES (1, 1, {longest_lease}, MD5(UUID()));
