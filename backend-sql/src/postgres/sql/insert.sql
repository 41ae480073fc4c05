-- Takes a name that is not there, released, or expired, and that nobody waits for. One round trip,
-- so nothing is in here that can be elsewhere.
-- $1 name, $2 owner, $3 label, $4 lease, $5 floor + 1.
-- What a row that is there gets is computed in SET, by a clock read when its lock was had. The values
-- of a new row may be older by a wait for another's insert: its lease then ends earlier. Its watermark may
-- be older, too, and a sweep that came meanwhile may have forgotten a token above both, where tokens lead the
-- clock: a sweep believes a watermark after a minute (sweep.sql), and no statement that is older than half of
-- that comes to its end.
INSERT INTO {locks} AS l (name, owner, label, token, version, expires_2, kept, store, itself)
SELECT $1, $2, $3, greatest(
    {micros},
    -- guard: watermark
    m.watermark + 1,
    $5), 1, {now} + $4, false,
    m.store, '{locks}'::regclass
FROM {marker} AS m WHERE {granting}
ON CONFLICT (name) DO UPDATE SET
    -- guard: token-of-the-row
    token = greatest({micros}, l.token + 1, $5),
    owner = $2, label = $3, version = l.version + 1, expires_2 = {now} + $4, kept = false,
    store = excluded.store, itself = excluded.itself
WHERE
    -- guard: held
    (l.owner IS NULL OR l.expires_2 <= {now}) AND
    l.waiters IS NULL AND {not_abandoned}
RETURNING token
    -- guard: young
    / {young}
