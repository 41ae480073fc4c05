-- What is known of ?1.
SELECT name, owner, label, token, version, GREATEST(expires - {now}, 0) AS remaining
FROM {locks} WHERE name = ?1
