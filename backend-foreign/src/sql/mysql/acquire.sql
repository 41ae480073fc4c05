-- Acquires a name whose lock_until has passed. ?1 name, ?2 owner, ?3 label, ?4 lease, ?5 floor + 1. Both rows exist, and are
-- read after they are locked. The clock is that of the start of the statement.
UPDATE {lock} AS l, {companion} AS c SET
    l.lock_until = {utc} + INTERVAL ?4 MICROSECOND, l.locked_at = {utc}, l.locked_by = ?2,
    c.owner = ?2, c.label = ?3,
    -- guard: above-the-last
    c.token = LAST_INSERT_ID(GREATEST({now}, c.token + 1, ?5))
WHERE l.name = ?1 AND c.name = ?1
    -- guard: held
    AND l.lock_until <= {utc}
    -- guard: not-abandoned
    AND (c.buried IS NULL OR LOCATE(?2, c.buried) = 0)
