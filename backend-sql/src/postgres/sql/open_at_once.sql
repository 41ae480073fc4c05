-- The operator states that nobody can hold a lock of this store.
INSERT INTO {marker} (id, store, itself, grants_from, watermark, raised)
VALUES (1, {here}, '{marker}'::regclass, 'epoch', 0, 'epoch')
ON CONFLICT (id) DO UPDATE SET
    store = excluded.store, itself = excluded.itself, grants_from = excluded.grants_from
