-- Makes a free row of $1, for the optimistic strategy.
INSERT INTO {locks} (name, token, version, expires, kept)
SELECT $1, m.watermark, 0, 'epoch', false FROM {marker} AS m
ON CONFLICT DO NOTHING
