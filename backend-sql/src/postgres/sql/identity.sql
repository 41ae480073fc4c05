-- Which cluster, database and tables these are.
SELECT here.system || ':' || here.database || ':' || '{settings}'::regclass::oid FROM {here} AS here
