-- The tables of leasehold in SQLite. {locks} and its like stand for the names of the tables.
--
-- One row per name that is held, or was held lately. Times are nanoseconds of CLOCK_BOOTTIME, which
-- only make sense within one epoch: one boot of one machine, seen from one time namespace.
CREATE TABLE IF NOT EXISTS {locks} (
    name    TEXT    NOT NULL PRIMARY KEY,
    owner   TEXT,                -- 32 hexadecimal digits; NULL when released; all 0 where readers share it
    label   TEXT,                -- the owner's, for people
    token   INTEGER NOT NULL,    -- of the holder, or of the last one
    version INTEGER NOT NULL,    -- one more with every change
    lease   INTEGER NOT NULL,
    expires_2 INTEGER NOT NULL,  -- the name says the version since which it is so
    epoch   TEXT    NOT NULL,
    readers TEXT,                -- the owners that share it, with a comma behind each; NULL where none do
    bell    TEXT,                -- of the place that a release gave it to last
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
    at    INTEGER NOT NULL, -- as {locks}.expires_2
    epoch TEXT    NOT NULL,
    day   INTEGER NOT NULL  -- of the wall clock, from 1970 on
) STRICT, WITHOUT ROWID;

-- Who waits, in order. A place is heard of by the clock that its epoch has, and by the wall clock for all others.
CREATE TABLE IF NOT EXISTS {queue} (
    name     TEXT    NOT NULL,
    position INTEGER NOT NULL,
    owner    TEXT    NOT NULL, -- fresh for each place
    label    TEXT    NOT NULL,
    floor    INTEGER NOT NULL, -- the token must be larger
    bell     TEXT,             -- by which its process is woken: 32 hexadecimal digits; null where it looks
    heard    INTEGER NOT NULL, -- as {locks}.expires_2
    epoch    TEXT    NOT NULL,
    wall     INTEGER NOT NULL, -- the same by the wall clock, in microseconds
    shared   INTEGER NOT NULL, -- 1: a reader's
    PRIMARY KEY (name, position)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX IF NOT EXISTS {queue_owner} ON {queue} (name, owner);

-- Whoever is granted the lock has left the queue, in the same step; so have those before it, which were passed over. The
-- reader that came last is the last one that is named.
CREATE TRIGGER IF NOT EXISTS {served} AFTER UPDATE OF owner ON {locks} WHEN new.owner IS NOT NULL
BEGIN
    DELETE FROM {queue} WHERE name = new.name AND position <= (
        SELECT position FROM {queue} WHERE name = new.name AND owner = coalesce(substr(new.readers, -33, 32), new.owner)
    );
END;
CREATE TRIGGER IF NOT EXISTS {served_first} AFTER INSERT ON {locks} WHEN new.owner IS NOT NULL
BEGIN
    DELETE FROM {queue} WHERE name = new.name AND position <= (
        SELECT position FROM {queue} WHERE name = new.name AND owner = coalesce(substr(new.readers, -33, 32), new.owner)
    );
END;

-- What all clients agree on. No row of a name that is gone had a token above the watermark. The version is that of the
-- records in all tables. Only `init` upgrades older ones: SQLite cannot change a column only if need be.
CREATE TABLE IF NOT EXISTS {settings} (
    id            INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    longest_lease INTEGER NOT NULL, -- milliseconds
    watermark     INTEGER NOT NULL,
    -- Tells this store from every other, also under another path.
    identity      TEXT    NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    version       INTEGER NOT NULL DEFAULT 2
) STRICT;

INSERT INTO {settings} (id, longest_lease, watermark) VALUES (1, {longest_lease}, 0)
    ON CONFLICT DO NOTHING;
