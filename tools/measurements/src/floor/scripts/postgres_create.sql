-- Unlogged, as the locks are, with room on each page as they have it.
CREATE UNLOGGED TABLE leasehold_compare_floor (
    name TEXT PRIMARY KEY, owner TEXT, token BIGINT NOT NULL, expires BIGINT NOT NULL
) WITH (fillfactor = 50)
