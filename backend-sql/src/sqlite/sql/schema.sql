-- The tables of leasehold in SQLite. {locks} and its like stand for the names of the tables.
--
-- One row per name that is held, or was held lately. Times are nanoseconds of CLOCK_BOOTTIME, which
-- only make sense within one epoch: one boot of one machine, seen from one time namespace.
CREATE TABLE IF NOT EXISTS {locks} (
    name    TEXT    NOT NULL PRIMARY KEY,
    owner   TEXT,                -- 32 hexadecimal digits; NULL when released
    label   TEXT,                -- the owner's, for people
    token   INTEGER NOT NULL,    -- of the holder, or of the last one
    version INTEGER NOT NULL,    -- one more with every change
    lease   INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    epoch   TEXT    NOT NULL,
    kept    INTEGER NOT NULL     -- 1: released, and kept for a last while
) STRICT, WITHOUT ROWID;

-- Rows that were seen by the clock of another epoch, which cannot tell when their leases end: to it they are
-- held for a whole lease more. One that has another token or version has changed since it was seen.
CREATE TABLE IF NOT EXISTS {seen} (
    name    TEXT    NOT NULL,
    epoch   TEXT    NOT NULL, -- of the clock
    token   INTEGER NOT NULL,
    version INTEGER NOT NULL,
    until   INTEGER NOT NULL, -- by the clock
    PRIMARY KEY (name, epoch)
) STRICT, WITHOUT ROWID;

-- Owners that must never be granted anything any more.
CREATE TABLE IF NOT EXISTS {abandoned} (
    owner TEXT    NOT NULL PRIMARY KEY,
    at    INTEGER NOT NULL, -- as {locks}.expires
    epoch TEXT    NOT NULL,
    day   INTEGER NOT NULL  -- of the wall clock, from 1970 on
) STRICT, WITHOUT ROWID;

-- What all clients agree on. No row of a name that is gone had a token above the watermark. The version is that of the
-- records in all tables. Version 0 has no such column, and SQLite cannot add it only if need be; to upgrade by hand:
-- ALTER TABLE {settings} ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
CREATE TABLE IF NOT EXISTS {settings} (
    id            INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    longest_lease INTEGER NOT NULL, -- milliseconds
    watermark     INTEGER NOT NULL,
    -- Tells this store from every other, also under another path.
    identity      TEXT    NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    version       INTEGER NOT NULL DEFAULT 1
) STRICT;

INSERT INTO {settings} (id, longest_lease, watermark) VALUES (1, {longest_lease}, 0)
    ON CONFLICT DO NOTHING;
