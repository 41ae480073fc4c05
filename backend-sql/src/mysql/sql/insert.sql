-- Takes a name that is not there, released, or expired, if no other owner has the first live entry; sets the lease of our own
-- anew. The token is the insert id of the answer, 0 if the name is another's: there is no RETURNING.
-- ?1 name, ?2 owner, ?3 label, ?4 lease, ?5 the least token.
--
-- This does not read the settings: it may wait long for the lock's row, and would keep the row of the settings, which all
-- share, locked meanwhile. So ?5 is above the watermark that this client knows, and forgotten.sql checks the token
-- afterwards. `kept` is 2 until the holder, which has checked the token, gives the lock back.
--
-- The assignments are made one after the other, or all at once (SIMULTANEOUS_ASSIGNMENT of MariaDB).
-- So each is written to mean the same in both: {takes} is as true before as after the columns above
-- `expires` have been set. They are evaluated when the row is locked, by what it is then, its
-- tombstones too. A repeat may come after a renewal that was sent later: it never shortens.
INSERT INTO {locks} (name, owner, label, token, version, expires, kept)
SELECT ?1, ?2, ?3, LAST_INSERT_ID(GREATEST({now}, ?5)), 1, {now} + ?4, 2
FROM DUAL WHERE NOT {behind}
ON DUPLICATE KEY UPDATE
    token = IF(
        {takes},
        LAST_INSERT_ID(
            IF({locks}.expires <= {now}, GREATEST({now}, {locks}.token + 1, ?5), {locks}.token)
        ),
        {locks}.token + CAST(LAST_INSERT_ID(0) AS SIGNED)
    ),
    owner = IF({takes}, ?2, {locks}.owner),
    label = IF({takes}, ?3, {locks}.label),
    version = IF({takes}, {locks}.version + 1, {locks}.version),
    kept = IF({takes} AND {locks}.expires <= {now}, 2, {locks}.kept),
    expires = IF({takes}, GREATEST({locks}.expires, {now} + ?4), {locks}.expires)
