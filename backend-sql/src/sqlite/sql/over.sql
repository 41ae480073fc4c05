((
-- guard: epoch
l.epoch = {epoch} AND
l.expires <= {now}) OR (l.epoch <> {epoch} AND EXISTS (
SELECT 1 FROM {seen} AS s WHERE {sighting}
-- guard: seen-for-a-lease
AND s.until <= {now}
)))
