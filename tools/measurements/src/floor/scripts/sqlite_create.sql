CREATE TABLE leasehold_compare_floor (
    name TEXT PRIMARY KEY, owner TEXT, token INTEGER NOT NULL, expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID
