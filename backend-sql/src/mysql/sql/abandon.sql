-- ?3: the watermark that this client knows, for a new row.
-- No attempt of ?2 at ?1 may succeed any more, and what it has is taken away. An attempt that was read
-- before this statement has the row's lock, and this one waits behind it; a later one finds the
-- tombstone in the row itself. The version changes in any case, so that no attempt that has read
-- the row before takes it. A lock that was released, and is kept, stays. Tombstones are forgotten when
-- there was no new one for an hour: no statement of theirs is under way; and there are no more than a
-- thousand.
INSERT INTO {locks} (name, owner, label, token, version, expires, kept, buried, buried_at)
VALUES (?1, NULL, NULL, ?3, 1, 0, 2, ?2, {now})
ON DUPLICATE KEY UPDATE
    version = {locks}.version + 1,
    buried = IF(
        {locks}.buried IS NULL OR {locks}.buried_at < {now} - {remembered}, ?2,
        IF({not_abandoned}, RIGHT(CONCAT({locks}.buried, ?2), 32000), {locks}.buried)
    ),
    buried_at = {now},
    expires = IF({locks}.owner = ?2
        -- guard: abandon-kept
        AND {locks}.kept <> 1
        , 0, {locks}.expires)
