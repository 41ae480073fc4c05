-- The columns of ShedLock's table and their types. A TIMESTAMP is converted by the time zone of the session. Sessions of other
-- clients have that of the server, unless init_connect sets another. The zone must be UTC all the time, and its name does not
-- show that: a zone called GMT may have summer time. So the server's rules are asked, for each month of the next three years.
SELECT c.column_name, CASE
    WHEN c.column_type LIKE 'timestamp%' AND @@global.init_connect LIKE '%time_zone%'
    THEN CONCAT(c.column_type, ' of the time zone that the server''s init_connect sets')
    WHEN c.column_type LIKE 'timestamp%' AND NOT z.is_utc
    THEN CONCAT(c.column_type, ' of the server''s time zone ',
        IF(@@global.time_zone = 'SYSTEM', @@system_time_zone, @@global.time_zone), ', which is not UTC all the year')
    ELSE c.column_type
END
FROM information_schema.columns AS c, (
    -- NULL is a zone of which the server has no rules.
    SELECT MIN(COALESCE(CONVERT_TZ(t.moment, '+00:00', @@global.time_zone) = t.moment, 0)) AS is_utc
    FROM (
        SELECT UTC_TIMESTAMP() + INTERVAL 6 * a.digit + b.digit MONTH AS moment
        FROM (SELECT 0 AS digit UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5) AS a,
            (SELECT 0 AS digit UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5) AS b
    ) AS t
) AS z
WHERE c.table_schema = DATABASE() AND CONCAT('`', c.table_name, '`') = '{lock}'
