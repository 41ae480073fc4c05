-- For how long nothing is granted. No row if the marker is missing or belongs to another store.
SELECT {left of grants_from}
FROM {marker} AS m WHERE m.store = {here} AND m.itself = m.tableoid
