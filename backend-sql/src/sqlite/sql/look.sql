-- What is known of ?1.
SELECT name, owner, label, token, version, lease, expires, epoch FROM {locks} WHERE name = ?1
