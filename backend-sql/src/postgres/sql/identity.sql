-- Which cluster, database and tables these are.
SELECT {here} || '/' || '{settings}'::regclass::oid::text
