-- Renews a batch: $1 names, $2 their owners, $3 their leases. A row that another transaction has is left
-- out, since an UPDATE would wait for it. A batch may be carried out after one that was sent later: it never
-- shortens.
WITH ours AS (
    SELECT l.name, g.lease
    FROM unnest($1::text[], $2::text[], $3::interval[]) AS g (name, owner, lease)
    JOIN {locks} AS l ON l.name = g.name AND l.owner = g.owner
    WHERE NOT l.kept AND l.expires > {now}
    FOR UPDATE OF l SKIP LOCKED
)
UPDATE {locks} AS l SET expires = greatest(l.expires, {now} + ours.lease)
FROM ours WHERE l.name = ours.name
RETURNING l.owner
