CREATE TABLE leasehold_compare_floor (
    name VARBINARY(255) PRIMARY KEY, owner VARBINARY(32), token BIGINT NOT NULL, expires BIGINT NOT NULL
) ENGINE = InnoDB
