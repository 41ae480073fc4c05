-- Attempts, and what keeps an abandoned owner from a late one.

-- name: create_row(name)
-- Makes a free row for $name, if there is none.
INSERT INTO {lock} (name, lock_until, locked_at, locked_by)
VALUES ($name, '2000-01-01 00:00:00', '2000-01-01 00:00:00', '00000000000000000000000000000000')
ON DUPLICATE KEY UPDATE locked_by = locked_by

-- name: create_companion_row(name)
INSERT INTO {companion} (name, token) VALUES ($name, 0) ON DUPLICATE KEY UPDATE token = token

-- name: acquire(name, owner, label, lease, above)
-- Acquires a name whose lock_until has passed. $above is floor + 1. Both rows exist, and are read
-- after they are locked. The clock is that of the start of the statement.
UPDATE {lock} AS l, {companion} AS c SET
    l.lock_until = {utc} + INTERVAL $lease MICROSECOND, l.locked_at = {utc}, l.locked_by = $owner,
    c.owner = $owner, c.label = $label,
    -- guard: above-the-last
    c.token = LAST_INSERT_ID(GREATEST({now}, c.token + 1, $above))
WHERE l.name = $name AND c.name = $name
    -- guard: held
    AND l.lock_until <= {utc}
    -- guard: not-abandoned
    AND (c.buried IS NULL OR LOCATE($owner, c.buried) = 0)

-- name: tombstone(name, owner)
-- Leaves a tombstone: no attempt of $owner to acquire $name may succeed any more. At most a
-- thousand such owners are remembered.
INSERT INTO {companion} (name, token, buried)
-- guard: tombstone-new
VALUES ($name, 0, CONCAT($owner, ','))
ON DUPLICATE KEY UPDATE
    -- guard: tombstone-others
    buried = LEFT(CONCAT($owner, ',', COALESCE(buried, '')), 33000)
