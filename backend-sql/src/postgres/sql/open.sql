(l.expires > {now} AND
-- guard: join-readers
l.owner = {shared} AND
pg_catalog.strpos(l.readers, $2) = 0
-- guard: join-most
AND pg_catalog.length(l.readers) < {most}
)
