-- Renews a batch: $1 names, $2 their owners, $3 their leases. No lease is set that is above the longest lease, which may
-- have been lowered since the grant. A row that another transaction has is left out, since an UPDATE would wait for it. A
-- batch may be carried out after one that was sent later: it never shortens. Answers who was renewed, and the lease in µs.
WITH ours AS (
    SELECT l.name, least(
        -- guard: renew-longest
        (SELECT s.longest_lease FROM {settings} AS s),
        g.lease) AS lease
    FROM unnest($1::text[], $2::text[], $3::interval[]) AS g (name, owner, lease)
    JOIN {locks} AS l ON l.name = g.name AND l.owner = g.owner
    WHERE NOT l.kept
    -- guard: renew-expired
    AND l.expires_2 > {now}
    -- guard: renew-skips
    FOR UPDATE OF l SKIP LOCKED
)
UPDATE {locks} AS l SET expires_2 = greatest(l.expires_2, {now} + ours.lease)
FROM ours WHERE l.name = ours.name
RETURNING l.owner, (pg_catalog.date_part('epoch', ours.lease) * 1000000::double precision)::bigint
