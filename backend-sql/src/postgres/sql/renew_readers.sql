-- Renews a batch of readers, of which several may share a lock. Otherwise as renew.sql, with the same arguments and
-- answer.
WITH ours AS (
    SELECT l.name, g.owner, least((SELECT s.longest_lease FROM {settings} AS s), g.lease) AS lease
    FROM unnest($1::text[], $2::text[], $3::interval[]) AS g (name, owner, lease)
    JOIN {locks} AS l ON l.name = g.name AND l.owner = {shared}
    WHERE true
    -- guard: renew-reader
    AND pg_catalog.strpos(l.readers, g.owner) > 0
    -- guard: renew-readers-expired
    AND l.expires > {now}
    FOR UPDATE OF l SKIP LOCKED
),
renewed AS (
    UPDATE {locks} AS l SET expires = greatest(l.expires, {now} + m.lease)
    FROM (SELECT o.name, pg_catalog.max(o.lease) AS lease FROM ours AS o GROUP BY o.name) AS m
    WHERE l.name = m.name
    RETURNING l.name
)
SELECT o.owner, (pg_catalog.date_part('epoch', o.lease) * 1000000::double precision)::bigint
FROM ours AS o JOIN renewed AS r ON r.name = o.name
