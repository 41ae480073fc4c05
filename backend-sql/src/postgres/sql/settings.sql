-- The store's longest lease in microseconds, and whether it has a quarantine.
SELECT (date_part('epoch', longest_lease) * 1000000)::bigint, quarantined FROM {settings}
