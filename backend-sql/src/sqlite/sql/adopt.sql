-- A row of another boot or machine counts as held for its whole lease from when it is first seen:
-- which is now. ?1 name, ?2 now, ?3 epoch, ?4 the version that was seen. The row itself stays as it is: a client
-- with yet another clock counts for itself, and none begins anew while its holder writes nothing. A holder in
-- another time namespace of this machine may have renewed since ?2 was read: then it is left to the next look.
INSERT INTO {seen} (name, epoch, token, version, until)
SELECT name, ?3, token, version, ?2 + lease FROM {locks}
WHERE name = ?1 AND owner IS NOT NULL AND epoch <> ?3 AND version = ?4
ON CONFLICT (name, epoch) DO UPDATE SET
    token = excluded.token, version = excluded.version, until = excluded.until
WHERE token <> excluded.token OR version <> excluded.version
