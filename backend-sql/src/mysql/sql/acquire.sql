-- How a writer takes a lock, and how it gives an attempt up.
--
-- Leases are microseconds of the server's clock. $least is the least token that a grant may have:
-- it is above the floor of the request, and above the watermark that this client knows.
--
-- MySQL has no RETURNING. So a statement answers by its insert id, which LAST_INSERT_ID(…) sets; 0
-- means that it did nothing. The insert id of a grant is its token.

-- name: insert(name, owner, label, lease, least)
-- Takes a name that has no row, or whose row is released or expired, unless the first live entry is
-- of another owner. If the owner already holds the lock, sets its lease anew. Such a repeat may
-- arrive after a renewal that was sent later, so it never shortens the lease.
--
-- The statement does not read the settings. It may wait long for the row of the lock, and meanwhile
-- it would keep the row of the settings locked, which all clients share. Instead, `forgotten`
-- checks the token afterwards. `kept` is 2 until the holder, which has checked the token, releases
-- the lock.
--
-- The server makes the assignments one after the other, or all at once (MariaDB's
-- SIMULTANEOUS_ASSIGNMENT). Each one means the same in both cases: the assignments above that of
-- `expires` do not change whether {takes} is true. The server evaluates them after it has locked
-- the row, so they see the row's latest state and its tombstones.
INSERT INTO {locks} (name, owner, label, token, version, expires, kept)
SELECT $name, $owner, $label, LAST_INSERT_ID(GREATEST({now}, $least)), 1, {now} + $lease, 2
FROM DUAL WHERE NOT {behind}
ON DUPLICATE KEY UPDATE
    token = IF(
        {takes},
        LAST_INSERT_ID(
            IF({locks}.expires <= {now}, GREATEST({now}, {locks}.token + 1, $least), {locks}.token)
        ),
        {locks}.token + CAST(LAST_INSERT_ID(0) AS SIGNED)
    ),
    owner = IF({takes}, $owner, {locks}.owner),
    label = IF({takes}, $label, {locks}.label),
    version = IF({takes}, {locks}.version + 1, {locks}.version),
    kept = IF({takes} AND {locks}.expires <= {now}, 2, {locks}.kept),
    expires = IF({takes}, GREATEST({locks}.expires, {now} + $lease), {locks}.expires)

-- name: take(name, owner, label, lease, least, version, kept)
-- Takes a row that has not changed since this client read or released it: at $version, or at any
-- version if that is null. It costs a third of `insert`. The row must also be free: a client of the
-- other strategy may have swept the row away and made another, which counts its versions anew.
-- $kept is 2 if this client checks the token afterwards, and 0 if it has held the row before. In
-- the second case the row may have been replaced by one whose token nobody has checked; the last
-- condition refuses that one.
UPDATE {locks} SET
    token = LAST_INSERT_ID(GREATEST({now}, token + 1, $least)),
    owner = $owner, label = $label, version = version + 1, expires = {now} + $lease, kept = $kept
WHERE name = $name AND version = IFNULL($version, version) AND expires <= {now} AND {not_abandoned}
    AND NOT {behind}
    -- guard: take-checked | S2 | an_unchecked_row | AND (? = 2 OR kept <> 3)
    AND ($kept = 2 OR kept <> 2)

-- name: create_row(name, watermark)
-- Makes a free row, for the optimistic strategy. $watermark is the one that this client knows.
INSERT IGNORE INTO {locks} (name, owner, label, token, version, expires, kept)
VALUES ($name, NULL, NULL, $watermark, 0, 0, 2)

-- name: forgotten(name, token)
-- The watermark, if nobody has checked the token of a grant and it is not above the watermark. Such
-- a grant must not be used: its row may have been made after a sweep that deleted a row of the same
-- name with a higher token. A sweep raises the watermark before it deletes a row. So a token that
-- is above the watermark after the grant is above the tokens of all rows that were deleted before
-- the grant.
SELECT s.watermark FROM {settings} AS s, {locks} AS l WHERE s.id = 1
    AND l.name = $name AND l.token = $token AND l.kept = 2
    -- guard: watermark | S2 | below_the_watermark | AND watermark < ? * 0
    AND s.watermark >= $token

-- name: read_row(name, owner)
-- Reads the row for $owner or, if that is null, for an operator. `ahead` is how many live entries
-- come first, up to a limit beyond which the number makes no difference. A dead entry of $owner
-- counts as none in {behind}, but keeps its position here: its heartbeat comes first. `entries`
-- counts the readers' entries. `readers` has them for an operator, and for an owner if no more fit
-- in. `queued`: whether $owner has an entry, which may be dead.
SELECT name, IF({has_reader}, SUBSTR(readers, LOCATE($owner, readers), 32), owner) AS owner, label, token, version, kept, GREATEST(expires, {now}) - {now} AS remaining,
    {now} AS clock, IF(owner = {shared} AND ($owner IS NULL OR LENGTH(readers) >= {most}), readers, NULL) AS readers,
    IF(owner = {shared}, LENGTH(readers) DIV {reader}, NULL) AS entries,
    IF($owner IS NULL, (SELECT COUNT(*) FROM {queue} AS q WHERE q.name = $name AND {alive}), NULL) AS waiting,
    {ahead} AS ahead,
    EXISTS(SELECT 1 FROM {queue} AS q WHERE q.name = $name AND q.owner = $owner AND q.heard > 0) AS queued
FROM {locks} WHERE name = $name

-- name: abandon(name, owner, watermark)
-- Bars the owner: no attempt of it succeeds any more, and it loses the lock if it has it.
-- $watermark, the one that this client knows, is for a new row.
-- An attempt that the server received earlier has locked the row, and this statement waits for it;
-- a later attempt finds the tombstone in the row. The version changes in any case, so an attempt
-- that has read the row before does not take it. A lock that was released, and is kept for a
-- minimum hold, stays. Tombstones are removed when none was added for an hour, because no statement
-- of their owners can still be under way. There are at most a thousand.
INSERT INTO {locks} (name, owner, label, token, version, expires, kept, buried, buried_at)
VALUES ($name, NULL, NULL, $watermark, 1, 0, 2, $owner, {now})
ON DUPLICATE KEY UPDATE
    version = {locks}.version + 1,
    buried = IF(
        {locks}.buried IS NULL OR {locks}.buried_at < {now} - {remembered}, $owner,
        IF({not_abandoned}, RIGHT(CONCAT({locks}.buried, $owner), 32000), {locks}.buried)
    ),
    buried_at = {now},
    expires = IF({locks}.owner = $owner
        -- guard: abandon-kept | S6 | a_clean_up_of_what_is_kept
        AND {locks}.kept <> 1
        , 0, {locks}.expires)

-- part: takes
-- Whether $owner may take the row, or has it already.
(({locks}.expires <= {now} OR (
-- guard: held | S1 | a_held_lock_is_refused_with_its_holder_and_token | ? <> '' AND
{locks}.owner = $owner AND
{locks}.kept <> 1)) AND {not_abandoned})

-- part: not_abandoned
-- Whether $owner has no tombstone in the row.
({locks}.buried IS NULL OR
-- guard: not-abandoned | S6 | an_abandoned_owner_takes_nothing_any_more | ? <> ''
-- guard: not-abandoned-reader | S6 | an_abandoned_reader_joins_nothing | ? <> ''
LOCATE($owner, {locks}.buried) = 0
)
