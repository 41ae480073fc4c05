-- After a loss: nothing is granted for the longest lease. Leaves a marker alone that is right.
INSERT INTO {marker} AS m (id, system, database, itself, grants_from)
SELECT 1, here.system, here.database, here.itself, {now} + s.quarantine
FROM {here} AS here, {settings} AS s
ON CONFLICT (id) DO UPDATE SET
    system = excluded.system, database = excluded.database, itself = excluded.itself,
    grants_from = {now} + (SELECT quarantine FROM {settings})
WHERE (m.system, m.database, m.itself) <> (excluded.system, excluded.database, excluded.itself)
