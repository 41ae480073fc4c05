-- How a writer takes a lock, and how it gives an attempt up.
--
-- $now is CLOCK_BOOTTIME in nanoseconds, which counts within $epoch only; $wall is the wall clock
-- in microseconds. Both may be older than the statement, by the time that it waited for the
-- database. Then the new lease ends earlier, or a held lock looks held for longer, never the other
-- way round. Leases are nanoseconds, too. The token is at least $floor.

-- name: insert(name, owner, label, lease, now, epoch, wall, floor)
-- Takes a name that has no row, or is released or expired, if no live entry comes first. If the
-- owner already holds the lock, sets its lease anew. Such a repeat may arrive after a renewal that
-- was sent later, so it never shortens the lease, neither `expires` nor `lease`, by which other
-- clocks count.
INSERT INTO {locks} AS l (name, owner, label, token, version, lease, expires, epoch, kept)
SELECT $name, $owner, $label, max(
    $wall,
    -- guard: watermark | S2 | a_token_over_a_sweep
    s.watermark + 1,
    $floor), 1, $lease, $now + $lease, $epoch, 0
FROM {settings} AS s
WHERE true
    -- guard: abandoned | S6 | an_abandoned_owner_takes_nothing_any_more
    AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = $owner)
    -- guard: barging | L3 | barging(primary-key)
    AND NOT {behind}
ON CONFLICT (name) DO UPDATE SET
    token = CASE
        WHEN l.owner = $owner AND (l.epoch <> $epoch OR l.expires > $now) THEN l.token
        -- guard: token-above | S2 | a_token_above_the_last(primary-key) | ELSE max($wall, $floor)
        ELSE max($wall, l.token + 1, $floor)
    END,
    expires = CASE
        WHEN l.owner = $owner AND l.epoch = $epoch THEN max(l.expires, $now + $lease)
        ELSE $now + $lease
    END,
    lease = CASE
        WHEN l.owner = $owner AND l.epoch = $epoch THEN max(l.expires - $now, $lease)
        ELSE $lease
    END,
    -- guard: held-alone | S1 | a_reader_beside_a_writer
    readers = NULL,
    owner = $owner, label = $label, version = l.version + 1, epoch = $epoch, kept = 0
-- guard: held | S1 | a_held_lock_is_refused_with_its_holder_and_token
WHERE l.owner IS NULL OR (l.owner = $owner AND NOT l.kept) OR {over}
RETURNING token

-- name: take(name, owner, label, lease, now, epoch, wall, floor, version)
-- Takes a row that has not changed since this client read it, at $version. It must also be free: a
-- client of the other strategy may have swept the row away and made another, which counts its
-- versions anew.
UPDATE {locks} AS l SET
    -- guard: take-token | S2 | a_token_above_the_last(optimistic) | token = max($wall, $floor),
    token = max($wall, token + 1, $floor),
    -- guard: take-alone | S1 | a_reader_beside_a_writer_of_a_row
    readers = NULL,
    owner = $owner, label = $label, version = version + 1, lease = $lease, expires = $now + $lease, epoch = $epoch, kept = 0
WHERE name = $name AND version = $version AND (owner IS NULL OR {over})
    -- guard: take-abandoned | S6 | an_abandoned_owner_of_a_row
    AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = $owner)
    -- guard: take-barging | L3 | barging(optimistic)
    AND NOT {behind}
RETURNING token

-- name: create_row(name, epoch)
-- Makes a free row, for the optimistic strategy.
INSERT INTO {locks} (name, token, version, lease, expires, epoch, kept)
SELECT $name, s.watermark, 0, 0, 0, $epoch, 0 FROM {settings} AS s
WHERE true ON CONFLICT DO NOTHING

-- name: read_row(name, owner, now, epoch, wall)
-- Reads the row for $owner or, if that is null, for an operator. `before` is how many live entries
-- come first, up to a limit beyond which the number makes no difference. A dead entry of $owner
-- counts as none in {behind}, but keeps its position here: its heartbeat comes first.
SELECT l.name, CASE WHEN {is_reader} THEN $owner ELSE l.owner END AS owner, {count} AS readers, l.label, l.token, l.version, kept, lease, expires, l.epoch, until,
    CASE WHEN $owner IS NULL THEN
        (SELECT count(*) FROM {queue} AS q WHERE q.name = l.name AND {alive})
    END AS waiting,
    (SELECT count(*) FROM (
        SELECT 1 FROM {queue} AS q WHERE q.name = $name AND q.position < coalesce(
            (SELECT m.position FROM {queue} AS m WHERE m.name = $name AND m.owner = $owner), 9223372036854775807
        ) AND {alive}
        LIMIT {far}
    )) AS before
FROM {locks} AS l LEFT JOIN {seen} AS s ON {sighting}
WHERE l.name = $name

-- name: note_sighting(name, now, epoch, version)
-- Notes when the lease of a row of another boot or machine ends by our clock: a whole lease after
-- it is first seen, which is now, at $version.
-- The row itself does not change: each client with another clock makes its own note, and no note
-- starts anew while the holder writes nothing. A holder in another time namespace of this machine
-- may have renewed since $now was read. Then the version differs, and the next read makes the note.
INSERT INTO {seen} (name, epoch, token, version, until)
SELECT name, $epoch, token, version, $now + lease FROM {locks}
WHERE name = $name AND owner IS NOT NULL AND epoch <> $epoch AND version = $version
ON CONFLICT (name, epoch) DO UPDATE SET
    token = excluded.token, version = excluded.version, until = excluded.until
WHERE token <> excluded.token OR version <> excluded.version

-- name: abandon(owner, now, epoch, day)
-- Bars the owner: no attempt of it succeeds any more. $day is of the wall clock.
INSERT INTO {abandoned} (owner, at, epoch, day) VALUES ($owner, $now, $epoch, $day) ON CONFLICT DO NOTHING

-- name: withdraw(name, owner, now, epoch)
-- Takes the lock away from the abandoned owner. A lock that was released, and is kept for a minimum
-- hold, stays.
UPDATE {locks} SET owner = NULL, label = NULL, version = version + 1
WHERE name = $name
-- guard: abandon-kept | S6 | a_clean_up_of_what_is_kept
AND NOT kept
AND owner = $owner AND (epoch <> $epoch OR expires > $now)
RETURNING version

-- part: over
-- Whether the lease of the row `l` is over: by its own clock, or by ours if the note on the row
-- says so. `rows.rs` has the same rule in Rust.
((
-- guard: epoch | S1 | a_row_of_another_boot_is_held
l.epoch = $epoch AND
l.expires <= $now) OR (l.epoch <> $epoch AND EXISTS (
SELECT 1 FROM {seen} AS s WHERE {sighting}
-- guard: seen-for-a-lease | S1 | a_row_of_another_boot_is_held
AND s.until <= $now
)))

-- part: sighting
-- Whether the note `s` is about the row `l` in its present state, by the clock of this epoch.
s.name = l.name AND s.epoch = $epoch AND s.token = l.token
-- guard: seen-version | S1 | a_row_of_another_clock_is_held_while_it_is_renewed
AND s.version = l.version
