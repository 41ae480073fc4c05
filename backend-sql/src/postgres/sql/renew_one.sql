-- Renews $1 for $3 if it is $2's, and waits for its row; for the longest lease where that is shorter: see renew.sql. It may
-- be carried out after one that was sent later: it never shortens. Answers the lease in µs.
UPDATE {locks} AS l SET expires_2 = greatest(l.expires_2, {now} + least(
        (SELECT s.longest_lease FROM {settings} AS s),
        $3::interval))
WHERE name = $1 AND (owner = $2 OR {is_reader}) AND NOT l.kept
    -- guard: renew-one-expired
    AND l.expires_2 > {now}
RETURNING (
    SELECT (pg_catalog.date_part('epoch', least(s.longest_lease, $3)) * 1000000::double precision)::bigint FROM {settings} AS s
)
