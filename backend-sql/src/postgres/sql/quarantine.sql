-- How long nothing is granted; no row where the marker is missing or another store's.
SELECT greatest(m.grants_from - {now}, 0)
FROM {marker} AS m, {here} AS here
WHERE (m.system, m.database, m.itself) = (here.system, here.database, here.itself)
