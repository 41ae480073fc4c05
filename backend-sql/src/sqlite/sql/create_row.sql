-- Makes a free row for ?1, for the optimistic strategy. ?2 epoch.
INSERT INTO {locks} (name, token, version, lease, expires, epoch, kept)
SELECT ?1, s.watermark, 0, 0, 0, ?2, 0 FROM {settings} AS s
WHERE true ON CONFLICT DO NOTHING
