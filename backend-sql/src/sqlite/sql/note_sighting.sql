-- Notes when the lease of a row of another boot or machine ends by our clock: a whole lease after it is first seen, which
-- is now. ?1 name, ?2 now, ?3 epoch, ?4 the version that was seen.
-- The row itself does not change: each client with another clock makes its own note, and no note starts anew while the
-- holder writes nothing. A holder in another time namespace of this machine may have renewed since ?2 was read. Then the
-- version differs, and the next read makes the note.
INSERT INTO {seen} (name, epoch, token, version, until)
SELECT name, ?3, token, version, ?2 + lease FROM {locks}
WHERE name = ?1 AND owner IS NOT NULL AND epoch <> ?3 AND version = ?4
ON CONFLICT (name, epoch) DO UPDATE SET
    token = excluded.token, version = excluded.version, until = excluded.until
WHERE token <> excluded.token OR version <> excluded.version
