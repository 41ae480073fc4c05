-- Releases ?1 if it is ?2's. ?3 now, ?4 epoch, ?5 wall clock in µs.
-- The first live entry gets the lock, for the time in which a new holder must renew it. If that entry is a reader's, it
-- starts to share the lock. If nobody waits, the next request of the same process gets the lock: ?6 owner, ?7 label, ?8
-- lease, ?9 its floor. These are null if there is none: then the lock is free. If that owner was abandoned, the statement
-- does nothing. The row stays, since it keeps the token.
UPDATE {locks} AS l SET
    owner = g.owner, readers = g.readers, label = g.label, bell = g.bell, version = version + 1, kept = 0,
    token = CASE WHEN g.owner IS NULL THEN l.token
        -- guard: pass-token
        ELSE max(?5, l.token + 1, g.floor + 1)
    END,
    lease = coalesce(g.lease, l.lease),
    expires = coalesce(?3 + g.lease, l.expires),
    epoch = CASE WHEN g.owner IS NULL THEN l.epoch ELSE ?4 END
FROM (
    SELECT * FROM (
        SELECT q.position, CASE WHEN q.shared THEN {shared} ELSE q.owner END AS owner,
            CASE WHEN q.shared THEN q.owner || ',' END AS readers, q.label, q.floor, q.bell, {claim_window} AS lease
        FROM {queue} AS q WHERE q.name = ?1 AND {alive ?3 ?4 ?5}
        ORDER BY
        -- guard: pass-first
        q.position
        LIMIT 1
    )
    UNION ALL
    SELECT 9223372036854775807, ?6, NULL, ?7, ?9, NULL, ?8
    WHERE true
    -- guard: pass-abandoned
    AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = ?6)
    ORDER BY 1 LIMIT 1
) AS g
WHERE l.name = ?1
    -- guard: release-owner
    AND l.owner = ?2
    AND (l.epoch <> ?4 OR l.expires > ?3)
RETURNING version, coalesce(substr(readers, 1, 32), owner), token, bell
