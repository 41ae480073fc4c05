-- For operators: what there is, the settings of the store, and its health.

-- name: list(after, most)
-- At most $most held names after $after.
SELECT {columns}, {waiting} FROM {locks} AS l
WHERE name > $after AND owner IS NOT NULL AND expires > {now}
ORDER BY name LIMIT $most

-- name: force(name)
-- Frees the lock, whoever has it, and notifies the first waiter. No token above 9007199254740990 =
-- 2^53 - 2 can be granted: a token out of range becomes the highest that a grant of ours may have,
-- and a version out of range starts again at 0.
UPDATE {locks} SET owner = NULL,
    token = CASE WHEN token BETWEEN 0 AND 9007199254740990 THEN token ELSE {micros} + (
        SELECT (pg_catalog.date_part('epoch', quarantine) * 1000000::double precision)::bigint FROM {settings}
    ) END,
    version = CASE WHEN version BETWEEN 0 AND 9007199254740990 THEN version ELSE 0 END
WHERE name = $name AND (
    (owner IS NOT NULL AND expires > {now})
    OR token NOT BETWEEN 0 AND 9007199254740990 OR version NOT BETWEEN 0 AND 9007199254740990
)
RETURNING version, CASE WHEN waiters[1] IS NOT NULL THEN {notify_first} END

-- name: settings
-- The longest lease of the store and the longest that it ever was, in microseconds, whether the
-- store has a quarantine, and whether the server waits for the disk at all.
SELECT (pg_catalog.date_part('epoch', longest_lease) * 1000000::double precision)::bigint,
    (pg_catalog.date_part('epoch', quarantine) * 1000000::double precision)::bigint, quarantined,
    -- guard: records-flushed | S7 | a_server_that_flushes_nothing
    pg_catalog.current_setting('fsync') = 'on' AND
    true
FROM {settings}

-- name: set_longest_lease(longest)
-- Sets the store's longest lease. The quarantine never gets shorter, since leases of the old length
-- may still run.
UPDATE {settings} SET longest_lease = $longest, quarantine = greatest(quarantine, $longest)
RETURNING {durably}

-- name: set_quarantine(quarantined)
-- Sets whether a quarantine follows a loss of data. Holders may still believe in locks that were
-- lost while it was off, so turning it on begins a whole quarantine. A missing marker, or one of
-- another store, is replaced here, so that no client that knows the old setting makes one.
-- `distrust_rows` does the rest.
WITH held_back AS (
    INSERT INTO {marker} AS m (id, store, itself, grants_from, watermark, raised, records_since)
    SELECT 1, {here}, {marker_file}, {now} + quarantine, 0, 'epoch', {now}
    FROM {settings} WHERE $quarantined AND NOT quarantined
    ON CONFLICT (id) DO UPDATE SET
        store = excluded.store, itself = excluded.itself, records_since = {records_since},
        grants_from = greatest(m.grants_from, excluded.grants_from)
)
UPDATE {settings} SET quarantined = $quarantined
RETURNING {durably}

-- name: version
-- The version of the records; 0 if the settings are so old that they have no such column. No row if
-- the settings have none.
SELECT (SELECT version FROM {settings} WHERE id = 1)::bigint FROM (SELECT 0 AS version) AS before
WHERE EXISTS (SELECT 1 FROM {settings} WHERE id = 1)

-- name: identity
-- Identifies the cluster, the database and the tables.
SELECT {here} || '/' || '{settings}'::regclass::oid::text

-- name: clock
-- The server's clock.
SELECT {micros}

-- name: highest_token
-- The highest token of all rows and of all deleted rows.
SELECT greatest(
    (SELECT coalesce(pg_catalog.max(watermark), 0) FROM {marker}),
    (SELECT coalesce(pg_catalog.max(token), 0) FROM {locks})
)

-- name: health
-- What slows this database down: for how many seconds the oldest snapshot of another session, or a
-- prepared transaction, has kept dead versions of rows; and to how many percent its queue of
-- notifications is full. Also answers what `session_count` does. It is one statement because a
-- second one might find no idle session.
SELECT greatest(
        (
            SELECT pg_catalog.date_part('epoch', pg_catalog.max({now} - a.xact_start))
            FROM pg_catalog.pg_stat_activity AS a JOIN pg_catalog.pg_database AS d ON d.oid = a.datid
            WHERE d.datname = pg_catalog.current_database() AND a.backend_xmin IS NOT NULL
                AND a.pid <> pg_catalog.pg_backend_pid()
        ),
        (
            SELECT pg_catalog.date_part('epoch', pg_catalog.max({now} - p.prepared)) FROM pg_catalog.pg_prepared_xacts AS p
            WHERE p.database = pg_catalog.current_database()
        ),
        0::double precision
    )::bigint,
    (pg_catalog.pg_notification_queue_usage() * 100::double precision)::bigint,
    {sessions}

-- name: session_count
-- How many sessions the server allows, and how many exist.
SELECT {sessions}

-- part: sessions
-- To count the sessions in `pg_stat_activity` takes ten times as long.
pg_catalog.current_setting('max_connections')::bigint,
(SELECT pg_catalog.sum(pg_catalog.pg_stat_get_db_numbackends(d.oid)) FROM pg_catalog.pg_database AS d)::bigint

-- part: durably
-- Makes this transaction durable, even if the server answers commits before it flushes them. The
-- length of the quarantine after a crash depends on the settings, so an answered change must
-- survive the crash.
CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
THEN pg_catalog.set_config('synchronous_commit', 'on', true) END
