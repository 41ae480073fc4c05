-- The longest lease of the store and the longest that it ever was, in microseconds, and whether the store has a
-- quarantine.
SELECT (pg_catalog.date_part('epoch', longest_lease) * 1000000::double precision)::bigint,
    (pg_catalog.date_part('epoch', quarantine) * 1000000::double precision)::bigint, quarantined
FROM {settings}
