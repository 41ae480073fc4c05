-- What the release of another granted to $2 at $1: renews it for $3, as for a repeat of the owner, and answers the token. A
-- message only says that this is worth asking.
UPDATE {locks} AS l SET expires_2 = greatest(l.expires_2, {now} + $3::interval)
WHERE name = $1
    -- guard: confirm-owner
    AND owner = $2
    AND NOT l.kept
    -- guard: confirm-expired
    AND l.expires_2 > {now}
RETURNING {columns}
