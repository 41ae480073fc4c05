-- name: schema
-- The tables of leasehold in PostgreSQL. Tokens are microseconds of the server's clock.
--
-- The tables of locks are unlogged: nobody waits for the disk, and a crash, a promotion or a
-- restore empties them. The marker goes with them and so shows the loss. Every statement that
-- grants reads it.

-- Notes for the end of this script whether this is the first use of the store, and whether the
-- locks or the records were lost. One such script runs at a time: otherwise the tables that another
-- one makes meanwhile would count as lost.
DO $$ BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('leasehold'), pg_catalog.hashtext('{settings}'));
    PERFORM pg_catalog.set_config('leasehold.first', (pg_catalog.to_regclass('{settings}') IS NULL)::text, true);
    PERFORM pg_catalog.set_config('leasehold.lost', (pg_catalog.to_regclass('{locks}') IS NULL)::text, true);
    PERFORM pg_catalog.set_config('leasehold.no_records', (pg_catalog.to_regclass('{records}') IS NULL)::text, true);
END $$;

CREATE TABLE IF NOT EXISTS {settings} (
    id            integer  NOT NULL PRIMARY KEY CHECK (id = 1),
    longest_lease interval NOT NULL,
    -- For how long nothing is granted after a loss: the longest that longest_lease ever was.
    quarantine    interval NOT NULL,
    quarantined   boolean  NOT NULL, -- whether a loss is followed by one
    version       integer  NOT NULL DEFAULT 1 -- of the records, in all tables
);

CREATE UNLOGGED TABLE IF NOT EXISTS {locks} (
    name      text        COLLATE "C" NOT NULL PRIMARY KEY,
    owner     text,                 -- 32 hexadecimal digits; null when released; all 0 where readers share it
    label     text,                 -- the owner's, for people
    token     bigint      NOT NULL, -- of the holder, or of the last one
    version   bigint      NOT NULL, -- one more with every grant
    expires   timestamptz NOT NULL, -- another version of the records renames it
    kept      boolean     NOT NULL, -- released, and kept for a minimum hold
    -- Where it was granted last: the marker's store, and the file of this table. As long as this
    -- row exists, so does the marker, and nothing was lost. If these values are wrong, the row was
    -- copied here, or the table was logged for a time.
    store     text,
    itself    oid,
    -- The owners that share it where the owner is all 0, each with the end of its lease in
    -- microseconds. `expires` is the last of these.
    readers   jsonb,
    client    text,                 -- 32 digits: the client that is notified of the last grant by a release
    -- The head of the queue, in the order of service. Each entry has the digits of its owner and of
    -- its client, then + if a release may grant it the lock, - if it must ask for the lock itself,
    -- or * for a reader's, and the owner's label. `alive` says until when each counts as alive
    -- without a heartbeat. Null when nobody waits, empty when all wait in the tail.
    waiters   text[],
    alive     timestamptz[],
    far       bigint,               -- position of the last entry in the tail, in {queue}; null when the tail is empty
    moved     bigint,               -- position of the last entry that moved from the tail to the head, or was dead
    turn      timestamptz,          -- until when only the first entry may take a free lock
    -- Tombstones: owners that are never granted anything again, and since when.
    buried    text[],
    buried_at timestamptz[]
) WITH (
    fillfactor = 50,                -- room to update a row in its page
    toast_tuple_target = 8160       -- the head of the queue stays in its row
);

-- Heartbeats of queue entries, and the tail of the queue. A heartbeat never waits for the lock's
-- row, and a statement on the lock's row never waits for a heartbeat. This table only decides who
-- moves to the head next, and who is dead.
CREATE UNLOGGED TABLE IF NOT EXISTS {queue} (
    name    text        COLLATE "C" NOT NULL,
    owner   text        COLLATE "C" NOT NULL, -- 32 hexadecimal digits
    entered bigint,                 -- position in the tail; null for an entry that joined the head
    entry   text,                   -- as in `waiters`
    alive   timestamptz NOT NULL,   -- until when it counts as alive
    PRIMARY KEY (name, owner)
) WITH (
    fillfactor = 50                 -- room for a heartbeat in the page, since no index contains `alive`
);

-- The records of names, which outlive the locks: so this table is logged.
CREATE TABLE IF NOT EXISTS {records} (
    name      text        COLLATE "C" NOT NULL PRIMARY KEY,
    token     bigint      NOT NULL, -- of the grant under which it was written
    number    bigint      NOT NULL, -- of the write, among those of the grant
    value     bytea       NOT NULL,
    written   timestamptz NOT NULL,
    forget_at timestamptz NOT NULL  -- it may be deleted from then on
);

CREATE UNLOGGED TABLE IF NOT EXISTS {marker} (
    id          integer     NOT NULL PRIMARY KEY CHECK (id = 1),
    store       text        NOT NULL, -- the cluster and the database in which it was made
    itself      oid         NOT NULL, -- the file of this table
    grants_from timestamptz NOT NULL,
    watermark   bigint      NOT NULL, -- no deleted row had a token above it
    raised      timestamptz NOT NULL, -- when the watermark was raised last
    -- No record that was written since then was lost. A loss of data takes the marker, and with it
    -- what an operator has said of records.
    records_since timestamptz NOT NULL
);

{refuse_tables}
CREATE INDEX IF NOT EXISTS {queue_in_order} ON {queue} (name, entered) WHERE entered IS NOT NULL;

-- Holders may still believe in locks that were lost. The next client, or `init`, finds a marker of
-- another store and begins a quarantine. A new store has no marker yet.
UPDATE {marker} SET store = '' WHERE pg_catalog.current_setting('leasehold.lost') = 'true';

UPDATE {marker} SET records_since = {now} WHERE pg_catalog.current_setting('leasehold.no_records') = 'true';

-- What empties the marker leaves the settings. So making their table is the first use, which grants
-- at once. If only their row is gone, somebody has emptied the table, perhaps with the others.
WITH made AS (
    INSERT INTO {settings} (id, longest_lease, quarantine, quarantined)
    VALUES (1, '{longest_lease} microseconds', '{longest_lease} microseconds', true)
    ON CONFLICT DO NOTHING
    RETURNING id, {durably}
)
INSERT INTO {marker} (id, store, itself, grants_from, watermark, raised, records_since)
SELECT made.id, CASE WHEN pg_catalog.current_setting('leasehold.first') = 'true' THEN {here} ELSE '' END,
    {marker_file}, 'epoch', 0, 'epoch',
    CASE WHEN pg_catalog.current_setting('leasehold.first') = 'true' THEN 'epoch' ELSE {now} END
FROM made
ON CONFLICT DO NOTHING;
