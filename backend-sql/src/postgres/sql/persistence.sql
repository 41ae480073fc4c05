true
-- guard: locks-unlogged
AND NOT pg_catalog.pg_relation_is_publishable('{locks}'::regclass)
-- guard: marker-unlogged
AND NOT pg_catalog.pg_relation_is_publishable('{marker}'::regclass)
-- guard: settings-logged
AND pg_catalog.pg_relation_is_publishable('{settings}'::regclass)
