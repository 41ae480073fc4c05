-- What slows this database down: for how many seconds the oldest snapshot of another session, or a prepared transaction,
-- has kept dead versions of rows; and to how many percent its queue of notifications is full. Also answers what
-- session_count.sql does. It is one statement because a second one might find no idle session.
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
