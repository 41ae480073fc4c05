-- The highest token seen for each resource. The table is logged, since it must be as durable as the data that it guards.
CREATE TABLE IF NOT EXISTS {fence} (
    resource text   COLLATE "C" NOT NULL PRIMARY KEY,
    token    bigint NOT NULL
);
