-- The columns of ShedLock's table and their types. A TIMESTAMP is converted by the time zone of the session, and sessions of
-- other clients have that of the server.
SELECT c.column_name, CASE
    WHEN c.column_type LIKE 'timestamp%' AND z.zone NOT IN ('UTC', '+00:00', 'Etc/UTC', 'GMT')
    THEN CONCAT(c.column_type, ' of the server''s time zone ', z.zone)
    ELSE c.column_type
END
FROM information_schema.columns AS c,
    (SELECT IF(@@global.time_zone = 'SYSTEM', @@system_time_zone, @@global.time_zone) AS zone) AS z
WHERE c.table_schema = DATABASE() AND CONCAT('`', c.table_name, '`') = '{lock}'
