-- Last step of a sweep: deletes notes on rows that have changed since.
DELETE FROM {seen} AS s WHERE NOT EXISTS (
    SELECT 1 FROM {locks} AS l WHERE l.name = s.name AND l.token = s.token AND l.version = s.version
)
