-- The highest token seen for each resource. Bytes: no collation makes two resources one.
CREATE TABLE IF NOT EXISTS {fence} (
    resource VARBINARY(512) NOT NULL PRIMARY KEY,
    token    BIGINT         NOT NULL
) ENGINE = InnoDB
