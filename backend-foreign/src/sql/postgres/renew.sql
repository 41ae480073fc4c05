-- Renews a batch: $1 names, $2 their owners, $3 their leases. A row that another transaction has is left out, since an UPDATE
-- would wait for it. A batch may be carried out after one that was sent later: it never shortens. Answers who was renewed.
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
