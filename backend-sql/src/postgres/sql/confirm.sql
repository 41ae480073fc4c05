-- Renews for $3 what another client's release granted to the owner $2 at the name $1, as for a repeat of the owner, and
-- answers the token. The message of the release is only a hint that this is worth asking.
UPDATE {locks} AS l SET expires = greatest(l.expires, {now} + $3::interval)
WHERE name = $1
    -- guard: confirm-owner
    AND owner = $2
    AND NOT l.kept
    -- guard: confirm-expired
    AND l.expires > {now}
RETURNING {columns}
