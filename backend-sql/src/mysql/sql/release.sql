-- Gives ?1 back if it is ?2's. The row stays for its token. The answer's insert id is the new version.
UPDATE {locks} SET owner = NULL, expires = 0, version = LAST_INSERT_ID(version + 1)
WHERE name = ?1 AND owner = ?2 AND expires > {now}
