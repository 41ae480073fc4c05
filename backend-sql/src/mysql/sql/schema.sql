-- name: schema
-- The tables of leasehold in MySQL and MariaDB. Times are microseconds of the server's clock. Names
-- and owners are bytes, because under a collation two different names could be equal.
CREATE TABLE IF NOT EXISTS {settings} (
    id            INT    NOT NULL PRIMARY KEY, -- 1
    longest_lease BIGINT NOT NULL,
    -- No deleted row had a token above the watermark.
    watermark     BIGINT NOT NULL,
    -- Identifies this store. It never changes.
    identity      VARBINARY(32) NOT NULL,
    -- Of the records in all tables.
    version       BIGINT NOT NULL DEFAULT 1
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {locks} (
    name      VARBINARY(255) NOT NULL PRIMARY KEY,
    owner     VARBINARY(32),           -- 32 hexadecimal digits; of the holder, or of the last one; all 0 where readers share it
    label     VARBINARY(255),          -- the owner's, for people
    token     BIGINT         NOT NULL, -- of the holder, or of the last one
    version   BIGINT         NOT NULL, -- one more with every change
    expires   BIGINT         NOT NULL, -- 0 when released; another version of the records renames it
    kept      TINYINT        NOT NULL, -- 1: released, and kept for a minimum hold; 2: the token may be below the watermark
    -- Tombstones: owners that are never granted this lock again, one after the other without a
    -- separator, and when the last one was added; NULL if there is none.
    buried    BLOB,
    buried_at BIGINT,
    -- The readers that share the lock: for each its owner, '-', the end of its lease in 16 digits,
    -- and a comma. It counts only if the owner is all 0. `expires` is the latest of these ends,
    -- also of readers that have left.
    readers   BLOB
) ENGINE = InnoDB;

-- The queue: waiters in the order of their positions. The primary key is what statements find an
-- entry by, so that they lock no entry of another owner, and no gap.
CREATE TABLE IF NOT EXISTS {queue} (
    name     VARBINARY(255) NOT NULL,
    position BIGINT         NOT NULL AUTO_INCREMENT,
    owner    VARBINARY(32)  NOT NULL, -- fresh for each entry
    heard    BIGINT         NOT NULL, -- the last heartbeat; if below 0, the time when the owner was abandoned, negated
    -- What a release needs to grant the lock to the owner.
    label    VARBINARY(255),
    floor    BIGINT         NOT NULL DEFAULT 0, -- the token must be larger
    shared   TINYINT        NOT NULL DEFAULT 0, -- 1: a reader's
    PRIMARY KEY (name, owner),
    KEY (name, position),
    KEY (position)
) ENGINE = InnoDB;

-- The records of names, which outlive the locks.
CREATE TABLE IF NOT EXISTS {records} (
    name      VARBINARY(255) NOT NULL PRIMARY KEY,
    token     BIGINT         NOT NULL, -- of the grant under which it was written
    number    BIGINT         NOT NULL, -- of the write, among those of the grant
    value     VARBINARY(1024),         -- NULL where the server takes an empty one for that
    written   BIGINT         NOT NULL,
    forget_at BIGINT         NOT NULL, -- it may be deleted from then on
    KEY (forget_at)
) ENGINE = InnoDB;

INSERT IGNORE INTO {settings} (id, longest_lease, watermark, identity)
VALUES (1, {longest_lease}, 0, MD5(UUID()));
