(l.owner = g.owner OR (l.owner = {shared} AND
-- guard: renew-reader
LOCATE(g.owner, l.readers) > 0
))
