-- Whether the tables of the settings, of the locks and of the rest are there, and may be read; and the schemas in which
-- names are looked up, in their order.
SELECT pg_catalog.to_regclass('{settings}') IS NOT NULL, pg_catalog.to_regclass('{locks}') IS NOT NULL,
    pg_catalog.to_regclass('{marker}') IS NOT NULL AND pg_catalog.to_regclass('{places}') IS NOT NULL, pg_catalog.current_schemas(true)::text[]
