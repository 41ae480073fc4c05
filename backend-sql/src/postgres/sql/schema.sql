-- The tables of leasehold in PostgreSQL. Times are microseconds of the server's clock.
--
-- Locks are unlogged: nobody waits for the disk, and a crash, a promotion or a restore empties them.
-- That is told by the marker, which goes with them; every statement that grants reads it.
CREATE TABLE IF NOT EXISTS {settings} (
    id            integer NOT NULL PRIMARY KEY CHECK (id = 1),
    longest_lease bigint  NOT NULL,
    -- How long nothing is granted after a loss: the longest that longest_lease ever was.
    quarantine    bigint  NOT NULL,
    -- No row of a name that is gone had a token above the watermark.
    watermark     bigint  NOT NULL,
    -- When the watermark was raised last.
    raised        bigint  NOT NULL
);

CREATE UNLOGGED TABLE IF NOT EXISTS {locks} (
    name    text   COLLATE "C" NOT NULL PRIMARY KEY,
    owner   text,            -- 32 hexadecimal digits; null when released
    label   text,            -- the owner's, for people
    token   bigint NOT NULL, -- of the holder, or of the last one
    version bigint NOT NULL, -- one more with every change
    lease   bigint NOT NULL,
    expires bigint NOT NULL,
    kept    boolean NOT NULL -- released, and kept for a last while
) WITH (fillfactor = 50);    -- room to update a row in its page

-- Owners that must never be granted anything any more.
CREATE UNLOGGED TABLE IF NOT EXISTS {abandoned} (
    owner text   COLLATE "C" NOT NULL PRIMARY KEY,
    at    bigint NOT NULL
);

CREATE UNLOGGED TABLE IF NOT EXISTS {marker} (
    id          integer NOT NULL PRIMARY KEY CHECK (id = 1),
    system      bigint  NOT NULL,
    database    oid     NOT NULL,
    itself      oid     NOT NULL,
    grants_from bigint  NOT NULL
);

-- The settings outlive what empties the marker: making them is the first use, which grants at once.
WITH first AS (
    INSERT INTO {settings} (id, longest_lease, quarantine, watermark, raised)
    VALUES (1, {longest_lease}, {longest_lease}, 0, 0)
    ON CONFLICT DO NOTHING
    RETURNING id
)
INSERT INTO {marker} (id, system, database, itself, grants_from)
SELECT first.id, here.system, here.database, here.itself, 0 FROM first, {here} AS here
ON CONFLICT DO NOTHING;
