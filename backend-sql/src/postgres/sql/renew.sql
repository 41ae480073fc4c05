-- Renews a batch: $1 names, $2 their owners, $3 their leases. A batch may be carried out after one
-- that was sent later: it never shortens.
UPDATE {locks} AS l SET expires = greatest(l.expires, {now} + g.lease)
FROM unnest($1::text[], $2::text[], $3::interval[]) AS g (name, owner, lease)
WHERE l.name = g.name AND l.owner = g.owner AND NOT l.kept AND l.expires > {now}
RETURNING l.owner
