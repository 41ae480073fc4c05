-- The version of the records; 0 where the settings are from before there was one, and have no such column.
SELECT (SELECT version FROM {settings} WHERE id = 1) FROM (SELECT 0 AS version) AS before_it
