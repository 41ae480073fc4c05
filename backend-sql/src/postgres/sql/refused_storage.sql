-- Says why the first of these tables is refused for the way in which it is stored; no row if none is. Each table must be an
-- ordinary one, and logged or not as the list says.
SELECT pg_catalog.format(
    CASE
        WHEN t.relkind OPERATOR(pg_catalog.<>) 'r' THEN
            'the table "%1$s" is partitioned, a view or the like, and must be an ordinary table; remove it, and run `leasehold init`'
        WHEN w.persistence OPERATOR(pg_catalog.=) 'u' THEN
            'the table "%1$s" is not UNLOGGED, so a crash, a promotion or a restore of the server may leave it with old locks '
            'instead of empty, and a lock could have two holders; run ALTER TABLE %2$I.%1$I SET UNLOGGED, after which nothing '
            'is granted for one longest lease'
        ELSE
            'the table "%1$s" is UNLOGGED, so a crash, a promotion or a restore of the server empties it, and what must '
            'outlive that is lost; run ALTER TABLE %2$I.%1$I SET LOGGED'
    END, t.relname, n.nspname
)
FROM (VALUES {stored}) AS w (oid, persistence)
JOIN pg_catalog.pg_class AS t ON t.oid OPERATOR(pg_catalog.=) w.oid
JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) t.relnamespace
WHERE t.relkind OPERATOR(pg_catalog.<>) 'r' OR t.relpersistence OPERATOR(pg_catalog.<>) w.persistence
LIMIT 1
