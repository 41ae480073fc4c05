-- Makes a free row of $1, for the optimistic strategy. One with an old watermark is not made: see insert.sql.
INSERT INTO {locks} (name, token, version, expires_2, kept)
SELECT $1, m.watermark, 0, 'epoch', false FROM {marker} AS m
ON CONFLICT DO NOTHING
RETURNING 1 / {young}
