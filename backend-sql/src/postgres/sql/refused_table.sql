-- Says why the first of these tables that belongs to another role is refused; no row if none is. A missing table is not
-- refused. Operators and types name their schema, because this runs before the search path was checked.
WITH RECURSIVE ours AS (
    SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname OPERATOR(pg_catalog.=) current_user
    UNION
    SELECT m.roleid FROM pg_catalog.pg_auth_members AS m JOIN ours AS o ON m.member OPERATOR(pg_catalog.=) o.oid
)
SELECT pg_catalog.format(
    'the table "%s" belongs to the role "%s", which "%s" is not a member of, and which could run code in its name; '
    'remove the table, let that role do this, or grant it', t.relname, r.rolname, current_user
)
FROM pg_catalog.pg_class AS t JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) t.relowner
WHERE t.oid OPERATOR(pg_catalog.=) ANY (ARRAY[{tables}])
    AND NOT r.rolsuper AND r.rolname OPERATOR(pg_catalog.<>) 'pg_database_owner'
    AND NOT EXISTS (SELECT 1 FROM ours AS o WHERE o.oid OPERATOR(pg_catalog.=) r.oid)
    AND NOT EXISTS (
        SELECT 1 FROM pg_catalog.pg_database AS d
        WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND d.datdba OPERATOR(pg_catalog.=) r.oid
    )
    -- The owner of the schema could replace our tables at any time.
    AND NOT EXISTS (
        SELECT 1 FROM pg_catalog.pg_namespace AS n
        WHERE n.oid OPERATOR(pg_catalog.=) t.relnamespace AND n.nspowner OPERATOR(pg_catalog.=) r.oid
    )
LIMIT 1
