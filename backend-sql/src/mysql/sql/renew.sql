-- How holders, readers too, keep their locks. Leases are microseconds. A $batch is a JSON array of
-- [name in hexadecimal digits, owner, lease].
--
-- The server may carry out a renewal after one that was sent later, so no statement here shortens a
-- lease.

-- name: renew(batch)
-- Renews a batch. It finds each row by its key, and locks no other. It skips a row that another
-- transaction has locked, for which an UPDATE would wait. It inserts nothing, because the rows
-- exist, and stay locked until the statement ends. The insert id is the clock of this statement,
-- for `renewed`. The new version makes each found row a changed one, which counts as two affected
-- rows. Several elements may be readers of one row: each sets its own end, in turn. readers.sql
-- says how the ends are written.
INSERT INTO {locks} (name, token, version, expires, kept)
SELECT l.name, l.token, l.version, l.expires, l.kept
FROM {batch} STRAIGHT_JOIN {locks} AS l ON l.name = UNHEX(g.name) AND (l.owner = g.owner OR (l.owner = {shared} AND
-- guard: renew-reader-beside-another | S5 | a_late_renewal_beside_another |
--   LOCATE(g.owner, l.readers) > 0
-- guard: renew-reader | S5 | a_reader_that_left_renews_nothing | 1 = 1
-- guard: late-reader/renewal | S5 | a_late_renewal_by_a_reader | LOCATE(g.owner, l.readers) > 0
SUBSTR(l.readers, LOCATE(g.owner, l.readers) + 33, 16) > LPAD({now}, 16, '0')
))
WHERE l.kept <> 1
-- guard: renew-expired | S5 | a_renewal_does_not_bring_an_expired_grant_back
-- guard: late-reader/expired | S5 | a_late_renewal_by_a_reader
AND l.expires > {now}
-- guard: renew-skips | L5 | a_batch_beside_a_locked_row | FOR UPDATE
FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE
    readers = IF({locks}.owner = {shared},
        INSERT({locks}.readers, LOCATE(g.owner, {locks}.readers) + 33, 16, GREATEST(
            SUBSTR({locks}.readers, LOCATE(g.owner, {locks}.readers) + 33, 16), LPAD({now} + g.lease, 16, '0')
        )), {locks}.readers),
    expires = GREATEST({locks}.expires, LAST_INSERT_ID({now}) + g.lease),
    version = {locks}.version + 1

-- name: renewed(batch, clock)
-- Which owners of the batch have what `renew` sets, by its $clock: a lease that had ended by then
-- is too short. The statement reads no clock. If the clock was set back since, it would take an
-- expired grant for a held one.
SELECT g.owner
FROM {batch} STRAIGHT_JOIN {locks} AS l ON l.name = UNHEX(g.name) AND (l.owner = g.owner OR (l.owner = {shared} AND
-- guard: renewed-reader | S5 | a_late_renewal_beside_another | LOCATE(g.owner, l.readers) > ? * 0
SUBSTR(l.readers, LOCATE(g.owner, l.readers) + 33, 16) >= LPAD($clock + g.lease, 16, '0')
))
WHERE l.kept <> 1
-- guard: renewed-clock | S5 | a_late_renewal_among_others | AND l.expires >= 0 * ?
AND l.expires >= $clock + g.lease

-- name: renew_one(name, owner, lease)
-- Renews one lock, and waits for its row. The insert id is the new version.
UPDATE {locks} SET
    readers = {renewed_readers}, expires = GREATEST(expires, {now} + $lease), version = LAST_INSERT_ID(version + 1)
WHERE name = $name AND (owner = $owner OR {has_reader}) AND kept <> 1 AND expires > {now}

-- name: raise(name, owner, token)
-- Raises the token of the lock to $token if it is $owner's. The insert id is the new version.
UPDATE {locks} SET token = GREATEST(token, $token), version = LAST_INSERT_ID(version + 1)
WHERE name = $name AND (owner = $owner OR {has_reader}) AND expires > {now}

-- name: reown(name, former, owner, label, lease, token)
-- Gives the lock of $former, with its $token, to $owner, with a new lease. A repeat never shortens
-- the lease. `kept` stays, also where it says that nobody has checked the token. The insert id is
-- the new version. The first assignment reads the owner, and no other reads what one before it has
-- set.
UPDATE {locks} SET
    expires = IF(owner = $owner, GREATEST(expires, {now} + $lease), {now} + $lease),
    owner = $owner, label = $label, version = LAST_INSERT_ID(version + 1)
WHERE name = $name
    -- guard: reown-owner | S4 | a_lock_is_handed_over_once | AND (? <> '' OR ? <> '')
    AND (owner = $former OR owner = $owner)
    -- guard: reown-token | S4 | only_the_named_grant_is_handed_over | AND ? > 0
    AND token = $token
    -- guard: reown-kept | S5 | what_is_gone_is_not_handed_over
    AND kept <> 1
    -- guard: reown-expired | S5 | what_is_gone_is_not_handed_over
    AND expires > {now}
    AND {not_abandoned}

-- part: batch
-- The elements of $batch.
JSON_TABLE($batch, '$[*]' COLUMNS (name VARCHAR(510) PATH '$[0]', owner VARCHAR(32) PATH '$[1]', lease BIGINT PATH '$[2]')) AS g
