-- The tables of leasehold in PostgreSQL. Tokens are microseconds of the server's clock.
--
-- Locks are unlogged: nobody waits for the disk, and a crash, a promotion or a restore empties them.
-- That is told by the marker, which goes with them; every statement that grants reads it.
CREATE TABLE IF NOT EXISTS {settings} (
    id            integer  NOT NULL PRIMARY KEY CHECK (id = 1),
    longest_lease interval NOT NULL,
    -- How long nothing is granted after a loss: the longest that longest_lease ever was.
    quarantine    interval NOT NULL,
    quarantined   boolean  NOT NULL, -- whether a loss is followed by one
    version       integer  NOT NULL DEFAULT 2 -- of the records, in all tables
);

-- Whether the locks were lost, noted for below.
DO $$ BEGIN
    PERFORM pg_catalog.set_config('leasehold.lost', (pg_catalog.to_regclass('{locks}') IS NULL)::text, true);
END $$;

CREATE UNLOGGED TABLE IF NOT EXISTS {locks} (
    name      text        COLLATE "C" NOT NULL PRIMARY KEY,
    owner     text,                 -- 32 hexadecimal digits; null when released; all 0 where readers share it
    label     text,                 -- the owner's, for people
    token     bigint      NOT NULL, -- of the holder, or of the last one
    version   bigint      NOT NULL, -- one more with every grant
    expires_2 timestamptz NOT NULL, -- each version of the records has another name for it: see upgrade.sql
    kept      boolean     NOT NULL, -- released, and kept for a last while
    -- Where it was granted last: the marker's store, and this table. As long as this row is there, so
    -- is the marker, and nothing was lost; if these are not right, it was copied here.
    store     text,
    itself    oid,
    readers   text,                 -- the owners that share it, with a comma behind each, where the owner is all 0
    client    text,                 -- 32 digits: who is told of what was given to it last
    -- The places near the head in order, the first to be served first: each the digits of its owner and of the client
    -- that it is of, + if it may be given the lock or - if it is to be told to ask (* a reader's), and the owner's label; and until when
    -- each counts as alive, also without a heartbeat. Null when nobody waits, empty when all are behind.
    waiters   text[],
    alive     timestamptz[],
    far       bigint,               -- the last that entered behind these, in {places}; null when nobody is there
    moved     bigint,               -- the last of those that came near the head from there, or that were dead
    turn      timestamptz,          -- until when the first place alone may take what is free
    -- Owners that must never be granted anything any more, and since when.
    buried    text[],
    buried_at timestamptz[]
) WITH (
    fillfactor = 50,                -- room to update a row in its page
    toast_tuple_target = 8160       -- a queue near the head stays in its row
);

-- Heartbeats of places, and the places that are not near the head. A heartbeat never waits for the row of its lock, nor
-- that for a heartbeat. What is here decides nothing but who comes near the head next, and who is dead.
CREATE UNLOGGED TABLE IF NOT EXISTS {places} (
    name    text        COLLATE "C" NOT NULL,
    owner   text        COLLATE "C" NOT NULL, -- 32 hexadecimal digits
    entered bigint,                 -- in the order in which they entered; null for one that was near the head at once
    place   text,                   -- as in `waiters`
    alive   timestamptz NOT NULL,   -- until when it counts as alive
    PRIMARY KEY (name, owner)
) WITH (
    fillfactor = 50                 -- room for a heartbeat in the page: no index has a new entry by it
);

CREATE UNLOGGED TABLE IF NOT EXISTS {marker} (
    id          integer     NOT NULL PRIMARY KEY CHECK (id = 1),
    store       text        NOT NULL, -- the cluster and the database that it was made in
    itself      oid         NOT NULL, -- this table
    grants_from timestamptz NOT NULL,
    watermark   bigint      NOT NULL, -- no row of a name that is gone had a token above it
    raised      timestamptz NOT NULL  -- when that was raised last
);

{owners}
CREATE INDEX IF NOT EXISTS {places_in_order} ON {places} (name, entered) WHERE entered IS NOT NULL;

-- Locks that were lost may still be believed in. The next client, or `init`, finds a marker that is another store's, and
-- begins a quarantine. A new store has no marker yet.
UPDATE {marker} SET store = '' WHERE pg_catalog.current_setting('leasehold.lost') = 'true';

-- The settings outlive what empties the marker: making them is the first use, which grants at once.
WITH first AS (
    INSERT INTO {settings} (id, longest_lease, quarantine, quarantined)
    VALUES (1, '{longest_lease} microseconds', '{longest_lease} microseconds', true)
    ON CONFLICT DO NOTHING
    RETURNING id, {durably}
)
INSERT INTO {marker} (id, store, itself, grants_from, watermark, raised)
SELECT first.id, {here}, '{marker}'::regclass, 'epoch', 0, 'epoch' FROM first
ON CONFLICT DO NOTHING;
