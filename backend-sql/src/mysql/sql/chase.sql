-- Takes ?1 away from ?2, whether it has it or is about to: an attempt that was read before its
-- tombstone finds the row that is here then, and looks for the tombstone once it has that row's lock;
-- or it has the lock, and this statement waits behind it. The version changes in any case, so that no
-- attempt that has looked before takes the row. A lock that was released, and is kept, stays.
INSERT INTO {locks} (name, owner, label, token, version, lease, expires, kept)
SELECT ?1, NULL, NULL, s.watermark, 1, 0, 0, 0 FROM {settings} AS s WHERE s.id = 1
LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE
    version = {locks}.version + 1,
    label = IF({locks}.owner = ?2 AND {locks}.kept = 0, NULL, {locks}.label),
    expires = IF({locks}.owner = ?2 AND {locks}.kept = 0, 0, {locks}.expires),
    owner = IF({locks}.owner = ?2 AND {locks}.kept = 0, NULL, {locks}.owner)
