-- The highest token seen for each resource.
CREATE TABLE IF NOT EXISTS {fence} (
    resource TEXT    NOT NULL PRIMARY KEY,
    token    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
