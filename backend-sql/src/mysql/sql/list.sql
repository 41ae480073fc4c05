-- Held names after ?1, in hexadecimal digits, at most ?2.
SELECT HEX(name) AS place, name, owner, label, token, version, kept, GREATEST(expires, {now}) - {now} AS remaining
FROM {locks} WHERE name > UNHEX(?1) AND expires > {now}
ORDER BY name LIMIT ?2
