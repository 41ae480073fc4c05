-- What is known of ?1.
SELECT name, owner, label, token, version, kept, GREATEST(expires, {now}) - {now} AS remaining
FROM {locks} WHERE name = ?1
