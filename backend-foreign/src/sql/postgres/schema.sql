-- The tables, and a look at their columns.

-- name: schema
-- ShedLock's own table, as in its documentation except for the length of names; leasehold's
-- companion table; and the settings. Times are the server's UTC.
CREATE TABLE IF NOT EXISTS {lock} (
    name       VARCHAR(255) NOT NULL PRIMARY KEY,
    lock_until TIMESTAMP    NOT NULL,
    locked_at  TIMESTAMP    NOT NULL,
    locked_by  VARCHAR(255) NOT NULL
);

CREATE TABLE IF NOT EXISTS {companion} (
    name   text   PRIMARY KEY,
    owner  text,            -- hexadecimal digits; of the last holder that was a leasehold client
    label  text,            -- the owner's label, for people
    token  bigint NOT NULL, -- of the last holder that was a leasehold client
    buried text             -- owners that must never be granted anything any more, each with a comma behind it
);

CREATE TABLE IF NOT EXISTS {store} (
    id            integer PRIMARY KEY CHECK (id = 1),
    version       bigint NOT NULL, -- of the companion and of this table
    longest_lease bigint NOT NULL, -- in microseconds
    identity      text   NOT NULL  -- which store this is: made once
);

{owners}

INSERT INTO {store} (id, version, longest_lease, identity)
VALUES (1, 1, {longest_lease}, pg_catalog.md5(pg_catalog.random()::text || pg_catalog.clock_timestamp()::text))
ON CONFLICT (id) DO NOTHING;

-- name: columns
-- The columns of ShedLock's table and their types.
SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod)
FROM pg_catalog.pg_attribute AS a
WHERE a.attrelid = '{lock}'::regclass::oid AND a.attnum > 0 AND NOT a.attisdropped

-- part: utc
-- The server's UTC at the moment of the read.
pg_catalog.timezone('UTC', {now})

-- part: left
-- For how many microseconds a lock is still held. 'infinity' cannot be converted, and counts as a
-- thousand years.
greatest((pg_catalog.date_part('epoch',
    greatest(least(l.lock_until, {utc} + interval '1000 years'), {utc}) - {utc})
    * 1000000::double precision)::bigint, 0)
