-- Renews a batch: $1 names, $2 their owners, $3 their leases.
UPDATE {locks} AS l SET lease = g.lease, expires = {now} + g.lease, version = version + 1
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS g (name, owner, lease)
WHERE l.name = g.name AND l.owner = g.owner AND l.expires > {now}
RETURNING l.owner
