-- Identifies the cluster, the database and the tables.
SELECT {here} || '/' || '{settings}'::regclass::oid::text
