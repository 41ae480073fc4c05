-- The version of the records; 0 if the settings are so old that they have no such column. No row if the settings have none.
SELECT (SELECT version FROM {settings} WHERE id = 1)::bigint FROM (SELECT 0 AS version) AS before
WHERE EXISTS (SELECT 1 FROM {settings} WHERE id = 1)
