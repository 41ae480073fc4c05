-- Makes a free row of $1, for the optimistic strategy.
INSERT INTO {locks} (name, token, version, lease, expires, kept)
SELECT $1, s.watermark, 0, 0, 0, false FROM {settings} AS s
ON CONFLICT DO NOTHING
