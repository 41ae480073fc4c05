-- Takes a name that is not there, released, or expired; sets the lease of our own anew.
-- $1 name, $2 owner, $3 label, $4 lease, $5 floor + 1.
-- What a row that is there gets is computed in SET, by a clock read when its lock was had. The values
-- of a new row may be older by a wait for another's insert: its lease then ends earlier. A repeat may
-- come after a renewal that was sent later: it never shortens.
INSERT INTO {locks} AS l (name, owner, label, token, version, lease, expires, kept)
SELECT $1, $2, $3, greatest({now}, s.watermark + 1, $5), 1, $4, {now} + $4, false
FROM {settings} AS s
WHERE {granting} AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = $2)
ON CONFLICT (name) DO UPDATE SET
    token = CASE
        WHEN l.owner = $2 AND l.expires > {now} THEN l.token
        ELSE greatest({now}, l.token + 1, $5)
    END,
    expires = CASE WHEN l.owner = $2 THEN greatest(l.expires, {now} + $4) ELSE {now} + $4 END,
    owner = $2, label = $3, version = l.version + 1, lease = $4, kept = false
WHERE l.owner IS NULL OR (l.owner = $2 AND NOT l.kept) OR l.expires <= {now}
RETURNING token
