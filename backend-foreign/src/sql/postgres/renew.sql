-- Renews a batch: $1 names, $2 their owners, $3 their leases. A row that another transaction has locked is skipped, since an
-- UPDATE would wait for it. Renewals may be reordered, so it never shortens a lease. Returns the owners that were renewed.
WITH ours AS (
    SELECT l.name::text AS name, g.lease
    FROM unnest($1::text[], $2::text[], $3::interval[]) AS g (name, owner, lease)
    JOIN {lock} AS l ON l.name::text = g.name
    -- guard: renew-owner
    AND l.locked_by::text = g.owner
    -- guard: renew-over
    WHERE l.lock_until > {utc}
    -- guard: renew-skips
    FOR UPDATE OF l SKIP LOCKED
)
UPDATE {lock} AS l SET
    -- guard: renew-shorter
    lock_until = greatest(l.lock_until, {utc} + ours.lease)
FROM ours WHERE l.name::text = ours.name
RETURNING l.locked_by::text
