-- The operator's word that no lock of this store can be held.
INSERT INTO {marker} (id, system, database, itself, grants_from)
SELECT 1, here.system, here.database, here.itself, 0 FROM {here} AS here
ON CONFLICT (id) DO UPDATE SET
    system = excluded.system, database = excluded.database, itself = excluded.itself, grants_from = 0
