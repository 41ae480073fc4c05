-- Makes a free row of ?1, for the optimistic strategy. ?2: the watermark that this client knows.
INSERT IGNORE INTO {locks} (name, owner, label, token, version, expires, kept)
VALUES (?1, NULL, NULL, ?2, 0, 0, 2)
