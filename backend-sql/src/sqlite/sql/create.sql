-- Makes a free row of ?1, for the optimistic strategy. ?2 epoch.
INSERT INTO {locks} (name, token, version, lease, expires, epoch)
SELECT ?1, s.watermark, 0, 0, 0, ?2 FROM {settings} AS s
WHERE true ON CONFLICT DO NOTHING
