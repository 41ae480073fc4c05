-- Last step: forgets sightings of what has changed since.
DELETE FROM {seen} AS s WHERE NOT EXISTS (
    SELECT 1 FROM {locks} AS l WHERE l.name = s.name AND l.token = s.token AND l.version = s.version
)
