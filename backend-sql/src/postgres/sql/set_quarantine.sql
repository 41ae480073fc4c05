-- Sets whether a quarantine follows a loss of data: $1. Holders may still believe in locks that were lost while it was
-- off, so turning it on begins a whole quarantine. A missing marker, or one of another store, is replaced here, so that
-- no client that knows the old setting makes one. distrust_rows.sql does the rest.
WITH held_back AS (
    INSERT INTO {marker} AS m (id, store, itself, grants_from, watermark, raised)
    SELECT 1, {here}, '{marker}'::regclass, {now} + quarantine, 0, 'epoch'
    FROM {settings} WHERE $1 AND NOT quarantined
    ON CONFLICT (id) DO UPDATE SET
        store = excluded.store, itself = excluded.itself,
        grants_from = greatest(m.grants_from, excluded.grants_from)
)
UPDATE {settings} SET quarantined = $1
RETURNING {durably}
