-- The version of the records; 0 if the settings are so old that they have no such column.
SELECT (SELECT version FROM {settings} WHERE id = 1) FROM (SELECT 0 AS version) AS before_it
