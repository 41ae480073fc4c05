-- Whether the settings' table is there, and may be read; and the schemas in which names are looked up, in their order.
SELECT pg_catalog.to_regclass($1) IS NOT NULL, pg_catalog.current_schemas(true)::text[]
