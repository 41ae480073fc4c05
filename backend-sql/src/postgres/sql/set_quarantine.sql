-- Whether a loss is followed by a quarantine: $1. Locks that were lost while it was off may still be believed in: turning
-- it on begins a whole one. The marker is made where it is missing or another store's, so that no client makes one that
-- knows the old setting. doubt.sql does the rest.
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
