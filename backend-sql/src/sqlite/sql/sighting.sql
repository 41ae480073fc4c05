s.name = l.name AND s.epoch = {epoch} AND s.token = l.token
-- guard: seen-version
AND s.version = l.version
