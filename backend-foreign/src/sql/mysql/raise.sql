-- Lifts the token of ?1 to ?3 if ?2 holds it.
UPDATE {lock} AS l, {companion} AS c SET c.token = GREATEST(c.token, ?3)
WHERE l.name = ?1 AND c.name = ?1 AND c.owner = ?2 AND l.locked_by = ?2 AND l.lock_until > {utc}
