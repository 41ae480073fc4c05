-- How long nothing is granted; no row where the marker is missing or another store's.
SELECT greatest((pg_catalog.date_part('epoch', m.grants_from - {now}) * 1000000::double precision)::bigint, 0)
FROM {marker} AS m WHERE m.store = {here} AND m.itself = m.tableoid
