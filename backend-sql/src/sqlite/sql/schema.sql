-- name: schema
-- The tables of leasehold in SQLite. {locks} and its like stand for the names of the tables.
--
-- One row per name that is held, or was held lately. Times are nanoseconds of CLOCK_BOOTTIME. They
-- only make sense within one epoch: one boot of one machine, seen from one time namespace.
CREATE TABLE IF NOT EXISTS {locks} (
    name    TEXT    NOT NULL PRIMARY KEY,
    owner   TEXT,                -- 32 hexadecimal digits; NULL when released; all 0 where readers share it
    label   TEXT,                -- the owner's, for people
    token   INTEGER NOT NULL,    -- of the holder, or of the last one
    version INTEGER NOT NULL,    -- one more with every change
    lease   INTEGER NOT NULL,
    expires INTEGER NOT NULL,    -- another version of the records renames it
    epoch   TEXT    NOT NULL,
    -- The owners that share it, the newest first, each with the end of its own lease, on the clock
    -- of `expires`, which is the latest of them. NULL where none do.
    readers TEXT CHECK (json_type(readers) = 'object'),
    bell    TEXT,                -- of the entry that a release granted the lock to last
    kept    INTEGER NOT NULL     -- 1: released, and kept for a minimum hold
) STRICT, WITHOUT ROWID;

-- Notes on rows of other epochs. A client cannot tell when a lease of another epoch ends, so it
-- takes the row as held for a whole lease from when it first saw it. If the row's token or version
-- differs, the row has changed since.
CREATE TABLE IF NOT EXISTS {seen} (
    name    TEXT    NOT NULL,
    epoch   TEXT    NOT NULL, -- of the clock
    token   INTEGER NOT NULL,
    version INTEGER NOT NULL,
    until   INTEGER NOT NULL, -- by the clock
    PRIMARY KEY (name, epoch)
) STRICT, WITHOUT ROWID;

-- Tombstones: owners that are never granted anything again.
CREATE TABLE IF NOT EXISTS {abandoned} (
    owner TEXT    NOT NULL PRIMARY KEY,
    at    INTEGER NOT NULL, -- as {locks}.expires
    epoch TEXT    NOT NULL,
    day   INTEGER NOT NULL  -- of the wall clock, from 1970 on
) STRICT, WITHOUT ROWID;

-- The queue. A heartbeat counts by the clock of its epoch; clients of other epochs use the wall
-- clock.
CREATE TABLE IF NOT EXISTS {queue} (
    name     TEXT    NOT NULL,
    position INTEGER NOT NULL,
    owner    TEXT    NOT NULL, -- fresh for each entry
    label    TEXT    NOT NULL,
    floor    INTEGER NOT NULL, -- the token must be larger
    bell     TEXT,             -- wakes its process: 32 hexadecimal digits; null if that polls instead
    heard    INTEGER NOT NULL, -- the last heartbeat, on the clock of {locks}.expires
    epoch    TEXT    NOT NULL,
    wall     INTEGER NOT NULL, -- the same by the wall clock, in microseconds
    shared   INTEGER NOT NULL, -- 1: a reader's
    PRIMARY KEY (name, position)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX IF NOT EXISTS {queue_owner} ON {queue} (name, owner);

-- A grant removes the entry of the new owner in the same step, and the dead entries before it. Of
-- readers, the new one is the first in the column.
CREATE TRIGGER IF NOT EXISTS {served} AFTER UPDATE OF owner ON {locks} WHEN new.owner IS NOT NULL
BEGIN
    DELETE FROM {queue} WHERE name = new.name AND position <= (
        SELECT position FROM {queue} WHERE name = new.name AND owner = coalesce(substr(new.readers, 3, 32), new.owner)
    );
END;
CREATE TRIGGER IF NOT EXISTS {served_first} AFTER INSERT ON {locks} WHEN new.owner IS NOT NULL
BEGIN
    DELETE FROM {queue} WHERE name = new.name AND position <= (
        SELECT position FROM {queue} WHERE name = new.name AND owner = coalesce(substr(new.readers, 3, 32), new.owner)
    );
END;

-- The records of names, which outlive the locks. Times are microseconds of the wall clock.
CREATE TABLE IF NOT EXISTS {records} (
    name      TEXT    NOT NULL PRIMARY KEY,
    token     INTEGER NOT NULL, -- of the grant under which it was written
    number    INTEGER NOT NULL, -- of the write, among those of the grant
    value     BLOB    NOT NULL,
    written   INTEGER NOT NULL,
    forget_at INTEGER NOT NULL  -- it may be deleted from then on
) STRICT, WITHOUT ROWID;

-- The settings that all clients share. No deleted row had a token above the watermark. The version
-- is that of the records in all tables.
CREATE TABLE IF NOT EXISTS {settings} (
    id            INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    longest_lease INTEGER NOT NULL, -- milliseconds
    watermark     INTEGER NOT NULL,
    -- Identifies this store, also under another path.
    identity      TEXT    NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    version       INTEGER NOT NULL DEFAULT 1
) STRICT;

INSERT INTO {settings} (id, longest_lease, watermark) VALUES (1, {longest_lease}, 0)
    ON CONFLICT DO NOTHING;
