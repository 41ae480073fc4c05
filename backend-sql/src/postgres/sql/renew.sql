-- Renews a batch: $1 names, $2 their owners, $3 their leases. No lease exceeds the longest lease, which may have been
-- lowered since the grant. Rows that another transaction has locked are skipped, because an UPDATE would wait for them.
-- The batch may arrive after one that was sent later, so it never shortens a lease. Answers which owners were renewed,
-- and the lease in µs.
WITH ours AS (
    SELECT l.name, least(
        -- guard: renew-longest
        (SELECT s.longest_lease FROM {settings} AS s),
        g.lease) AS lease
    FROM unnest($1::text[], $2::text[], $3::interval[]) AS g (name, owner, lease)
    JOIN {locks} AS l ON l.name = g.name AND l.owner = g.owner
    WHERE NOT l.kept
    -- guard: renew-expired
    AND l.expires > {now}
    -- guard: renew-skips
    FOR UPDATE OF l SKIP LOCKED
)
UPDATE {locks} AS l SET expires = greatest(l.expires, {now} + ours.lease)
FROM ours WHERE l.name = ours.name
RETURNING l.owner, (pg_catalog.date_part('epoch', ours.lease) * 1000000::double precision)::bigint
