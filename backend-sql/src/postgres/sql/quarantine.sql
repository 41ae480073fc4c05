-- How long nothing is granted; no row where the marker is missing or another store's.
SELECT {left of grants_from}
FROM {marker} AS m WHERE m.store = {here} AND m.itself = m.tableoid
