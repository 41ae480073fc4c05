-- Whether a loss is followed by a quarantine: $1. Locks that were lost while it was off may still be believed in: turning
-- it on begins a whole one. Rows that are there are then no proof that nothing was lost: see mark.sql. The marker is made
-- where it is missing, so that no client makes one that knows the old setting.
WITH turned_on AS (
    SELECT quarantine FROM {settings} WHERE $1 AND NOT quarantined
),
doubted AS (
    UPDATE {locks} SET store = NULL WHERE store IS NOT NULL AND EXISTS (SELECT 1 FROM turned_on)
),
held_back AS (
    INSERT INTO {marker} AS m (id, store, itself, grants_from, watermark, raised)
    SELECT 1, {here}, '{marker}'::regclass, {now} + quarantine, 0, 'epoch' FROM turned_on
    ON CONFLICT (id) DO UPDATE SET grants_from = greatest(m.grants_from, excluded.grants_from)
)
UPDATE {settings} SET quarantined = $1
RETURNING {durably}
