-- Renews $1 for $3 if $2 holds it, and waits for its row. Renewals may be reordered, so it never shortens a lease.
UPDATE {lock} SET
    -- guard: renew-one-shorter
    lock_until = greatest(lock_until, {utc} + $3)
WHERE name::text = $1
    -- guard: renew-one-owner
    AND locked_by::text = $2
    -- guard: renew-one-over
    AND lock_until > {utc}
RETURNING 1::bigint
