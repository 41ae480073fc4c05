SELECT coalesce(pg_catalog.max(token), 0) FROM {companion}
