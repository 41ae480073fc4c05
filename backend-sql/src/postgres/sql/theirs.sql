-- Why the first of these tables that belongs to another role is refused; no row if none is.
WITH RECURSIVE ours AS (
    SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = current_user
    UNION
    SELECT m.roleid FROM pg_catalog.pg_auth_members AS m JOIN ours AS o ON m.member = o.oid
)
SELECT pg_catalog.format(
    'the table "%s" belongs to the role "%s", which "%s" is not a member of, and which could run code in its name; '
    'remove the table, let that role do this, or grant it', t.relname, r.rolname, current_user
)
FROM pg_catalog.pg_class AS t JOIN pg_catalog.pg_roles AS r ON r.oid = t.relowner
WHERE t.oid IN ({tables}) AND NOT r.rolsuper AND r.rolname <> 'pg_database_owner'
    AND NOT EXISTS (SELECT 1 FROM ours AS o WHERE o.oid = r.oid)
    AND NOT EXISTS (
        SELECT 1 FROM pg_catalog.pg_database AS d
        WHERE d.datname = pg_catalog.current_database() AND d.datdba = r.oid
    )
LIMIT 1
