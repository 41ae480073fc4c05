-- Checks of the tables, before a statement names one.
--
-- {tables} are their ids, {found} whether each is there, and {stored} how each must be stored.

-- name: exists
-- Answers whether each of these tables exists and may be read, the schemas in which names are
-- looked up, in their order, why a table of another role is refused, and why one is refused for the
-- way in which it is stored. It names the tables only as text, so no code of another role runs
-- here.
SELECT {found}, pg_catalog.current_schemas(true)::pg_catalog.text[], (
{refused_table}
), (
{refused_storage}
)

-- part: refuse_tables
-- Refuses tables of a role that ours is not a member of, because that role's triggers would run in
-- our name. Superusers and the owners of the schema and of the database are trusted. If our role is
-- a superuser, it counts only as a member of those roles that it was made a member of. This runs
-- before anything is written to the tables, in the transaction that makes them.
DO $$ DECLARE
    refusal text := (
{refused_table}
    );
BEGIN
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'LH001', MESSAGE = refusal;
    END IF;
END $$;

-- part: refused_table
-- Says why the first of these tables that belongs to another role is refused; no row if none is. A
-- missing table is not refused. Operators and types name their schema, because this runs before the
-- search path was checked.
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

-- part: refused_storage
-- Says why the first of these tables is refused for the way in which it is stored; no row if none
-- is. Each table must be an ordinary one, and logged or not as the list says.
SELECT pg_catalog.format(
    CASE
        WHEN t.relkind OPERATOR(pg_catalog.<>) 'r' THEN
            'the table "%1$s" is partitioned, a view or the like, and must be an ordinary table; remove it, and run `leasehold init`'
        WHEN w.persistence OPERATOR(pg_catalog.=) 'u' THEN
            'the table "%1$s" is not UNLOGGED, so a crash, a promotion or a restore of the server may leave it with old locks '
            'instead of empty, and a lock could have two holders; run ALTER TABLE %2$I.%1$I SET UNLOGGED, after which nothing '
            'may be granted for one longest lease'
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

-- name: refuse_tables
{refuse_tables}
