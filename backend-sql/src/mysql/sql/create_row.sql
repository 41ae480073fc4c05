-- Makes a free row of ?1, for the optimistic strategy.
INSERT IGNORE INTO {locks} (name, owner, label, token, version, expires_2, kept)
SELECT ?1, NULL, NULL, s.watermark, 0, 0, 0 FROM {settings} AS s WHERE s.id = 1
LOCK IN SHARE MODE
