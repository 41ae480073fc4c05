-- Makes a free row for $1, for the optimistic strategy. Fails if the watermark that it read is too old: see insert.sql.
INSERT INTO {locks} (name, token, version, expires, kept)
SELECT $1, m.watermark, 0, 'epoch', false FROM {marker} AS m
ON CONFLICT DO NOTHING
RETURNING 1 / {young}
