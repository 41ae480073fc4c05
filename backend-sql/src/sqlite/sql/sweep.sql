-- Deletes what is needed no more. The clocks are those of acquire.sql.

-- name: sweep_watermark(now, epoch)
-- First step of a sweep: raises the watermark to the tokens of all free rows. Whatever deletes a
-- token raises the watermark to it first.
UPDATE {settings}
-- guard: sweep/raises | S2 | a_token_over_a_sweep | SET watermark = min(watermark, (
SET watermark = max(watermark, (
    SELECT coalesce(max(token), 0) FROM {locks} AS l WHERE owner IS NULL OR {over}
))

-- name: sweep(now, epoch)
-- Second step of a sweep: deletes free rows. A row that was granted since the first step has a
-- larger token, so it stays. A row that somebody waits for stays, too.
DELETE FROM {locks} AS l
WHERE (owner IS NULL OR {over})
    -- guard: sweep/covered | S2 | a_token_over_a_sweep
    AND token <= (SELECT watermark FROM {settings})
    AND NOT EXISTS (SELECT 1 FROM {queue} AS q WHERE q.name = l.name)

-- name: forget(before, epoch, today)
-- Deletes the records of abandoned owners of which no statement can still be under way: those
-- before $before, in this epoch. The clock of another epoch says nothing here, since that epoch is
-- over or belongs to another time namespace. Its records are deleted on the second day after
-- theirs.
DELETE FROM {abandoned} WHERE (epoch = $epoch AND at < $before) OR (epoch <> $epoch AND day < $today - 1)

-- name: forget_seen
-- Last step of a sweep: deletes notes on rows that have changed since.
DELETE FROM {seen} AS s WHERE NOT EXISTS (
    SELECT 1 FROM {locks} AS l WHERE l.name = s.name AND l.token = s.token AND l.version = s.version
)

-- name: forget_entries(now, epoch, wall)
-- Deletes entries without a heartbeat: their processes have ended.
DELETE FROM {queue} AS q WHERE NOT {alive}
