-- Removes from the marker and from all rows the proof that no data was lost, if a loss may have left the tables as they were.
-- When they are unlogged again, the next client finds a marker of no store, and begins a quarantine.
WITH trusted AS (
    SELECT name FROM {locks} WHERE store IS NOT NULL AND NOT ({persistence}
    )
    FOR UPDATE NOWAIT
),
doubted AS (
    UPDATE {locks} AS l SET store = NULL FROM trusted WHERE l.name = trusted.name
)
UPDATE {marker} SET store = '' WHERE store <> '' AND NOT ({persistence}
)
