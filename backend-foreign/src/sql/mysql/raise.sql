-- Raises the token of ?1 to ?3 if ?2 holds it.
UPDATE {lock} AS l, {companion} AS c SET
    -- guard: raise-only
    c.token = GREATEST(c.token, ?3)
WHERE l.name = ?1 AND c.name = ?1
    -- guard: raise-owner
    AND l.locked_by = ?2
    -- guard: raise-over
    AND l.lock_until > {utc}
