-- Takes a name that has no row, or is released or expired, and that nobody waits for. This is the one round trip of an
-- acquire, so it contains nothing that can be elsewhere.
-- $1 name, $2 owner, $3 label, $4 lease, $5 floor + 1.
-- If the row exists, SET computes its values by a clock that is read after the row was locked. The values of a new row
-- may be older, by the time that the statement waited for another insert: then the lease ends earlier. The watermark may
-- be older, too. Where tokens lead the clock, a sweep may meanwhile have deleted a row with a token above both. So a
-- sweep trusts a watermark only after a minute (sweep.sql), and a statement older than half a minute fails.
INSERT INTO {locks} AS l (name, owner, label, token, version, expires, kept, store, itself)
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
    owner = $2, label = $3, version = l.version + 1, expires = {now} + $4, kept = false,
    store = excluded.store, itself = excluded.itself
WHERE
    -- guard: held
    (l.owner IS NULL OR l.expires <= {now}) AND
    l.waiters IS NULL AND {not_abandoned}
RETURNING token
    -- guard: young
    / {young}
