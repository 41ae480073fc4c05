-- Renews $1 for $3, but at most for the longest lease (see renew.sql), if it is $2's. Waits for the row. It may arrive
-- after a renewal that was sent later, so it never shortens a lease. Answers the lease in µs.
UPDATE {locks} AS l SET expires = greatest(l.expires, {now} + least(
        (SELECT s.longest_lease FROM {settings} AS s),
        $3::interval))
WHERE name = $1 AND (owner = $2 OR {is_reader}) AND NOT l.kept
    -- guard: renew-one-expired
    AND l.expires > {now}
RETURNING (
    SELECT (pg_catalog.date_part('epoch', least(s.longest_lease, $3)) * 1000000::double precision)::bigint FROM {settings} AS s
)
