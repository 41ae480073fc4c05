-- Makes ?2 a reader of ?1: of a name that is free, as insert.sql takes it, or beside the readers that share it; sets the lease
-- anew of one that is a reader already. The arguments, the answer and the order of the assignments are those of insert.sql:
-- {joins} is as true before as after the columns above `expires` have been set. The readers' lease ends with the last one of
-- theirs, and they have one token.
INSERT INTO {locks} (name, owner, readers, label, token, version, expires, kept)
SELECT ?1, {shared}, CONCAT(?2, ','), ?3, LAST_INSERT_ID(GREATEST({now}, ?5)), 1, {now} + ?4, 2
FROM DUAL WHERE NOT {behind}
ON DUPLICATE KEY UPDATE
    token = IF(
        {joins},
        LAST_INSERT_ID(
            IF({locks}.expires <= {now}, GREATEST({now},
                -- guard: join-above
                {locks}.token + 1,
                ?5), GREATEST({locks}.token, ?8))
        ),
        {locks}.token + CAST(LAST_INSERT_ID(0) AS SIGNED)
    ),
    label = IF({joins}, ?3, {locks}.label),
    version = IF({joins}, {locks}.version + 1, {locks}.version),
    kept = IF({joins} AND {locks}.expires <= {now}, 2, {locks}.kept),
    owner = IF({joins}, {shared}, {locks}.owner),
    readers = IF({joins}, IF({locks}.expires <= {now}, CONCAT(?2, ','),
        IF(LOCATE(?2, {locks}.readers) > 0, {locks}.readers,
        -- guard: join-others
        CONCAT({locks}.readers, ?2, ',')
        )), {locks}.readers),
    expires = IF({joins},
        -- guard: join-expires
        GREATEST({locks}.expires, {now} + ?4)
        , {locks}.expires)
