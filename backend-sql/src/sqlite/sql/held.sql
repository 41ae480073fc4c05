-- Which of the names ?1, a JSON array, are not worth asking for. ?2 now, ?3 epoch.
SELECT l.name FROM json_each(?1) AS g CROSS JOIN {locks} AS l ON l.name = g.value
WHERE owner IS NOT NULL AND NOT {over ?2 ?3}
