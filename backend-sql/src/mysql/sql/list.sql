-- Held names after ?1, in hexadecimal digits, at most ?2.
SELECT HEX(name) AS position, name, owner, {readers}, label, token, version, kept, GREATEST(expires, {now}) - {now} AS remaining,
    (SELECT COUNT(*) FROM {queue} AS q WHERE q.name = {locks}.name AND {alive}) AS waiting, 0 AS ahead, 0 AS queued
FROM {locks} WHERE name > UNHEX(?1) AND expires > {now}
ORDER BY name LIMIT ?2
