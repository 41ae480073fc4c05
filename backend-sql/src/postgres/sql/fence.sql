-- The highest token seen for each resource. Logged: it is to be as durable as the data it guards.
CREATE TABLE IF NOT EXISTS {fence} (
    resource text   COLLATE "C" NOT NULL PRIMARY KEY,
    token    bigint NOT NULL
);
