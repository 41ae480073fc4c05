-- After a loss of data: grants nothing for the longest lease, unless the quarantine is off. Leaves a correct marker
-- alone. Rows that still exist prove nothing any more.
-- $1 the longest that the longest lease ever was, as far as this client knows. A promoted standby may not have received
-- the last raise.
-- Fails instead of waiting for a row that another transaction has locked, because meanwhile no renewal would get the others.
WITH trusted AS (
    SELECT name FROM {locks} WHERE store IS NOT NULL
    FOR UPDATE NOWAIT
),
doubted AS (
    UPDATE {locks} AS l SET store = NULL FROM trusted WHERE l.name = trusted.name
)
INSERT INTO {marker} AS m (id, store, itself, grants_from, watermark, raised)
SELECT 1, {here}, '{marker}'::regclass, {now} + s.held_back, 0, 'epoch'
FROM (
    SELECT CASE WHEN quarantined THEN greatest(quarantine
        -- guard: longest-heard-of
        , $1
        ) ELSE interval '0' END AS held_back
    FROM {settings}
) AS s
ON CONFLICT (id) DO UPDATE SET
    store = excluded.store, itself = excluded.itself,
    grants_from = {now} + (
        SELECT CASE WHEN quarantined THEN greatest(quarantine
            -- guard: longest-heard-of-again
            , $1
            ) ELSE interval '0' END
        FROM {settings}
    )
WHERE (m.store, m.itself) <> (excluded.store, excluded.itself)
