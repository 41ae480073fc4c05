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
    -- guard: above-the-last | S2 | a_token_is_above_the_floor |
    --   c.token = LAST_INSERT_ID(GREATEST(0, ?))
    -- guard: above-the-floor | S2 | a_token_is_above_the_floor |
    --   c.token = LAST_INSERT_ID(c.token + 1 + 0 * ?)
    -- guard: above-what-was-lost | S2 | a_token_after_a_loss |
    --   c.token = LAST_INSERT_ID(GREATEST(c.token + 1, ?))
    c.token = LAST_INSERT_ID(GREATEST({now}, c.token + 1, $above))
WHERE l.name = $name AND c.name = $name
    -- guard: held | S1 | a_held_lock_is_refused_with_its_holder_and_token
    -- guard: held-by-others | S1 | a_foreign_holder_of_the_row
    AND l.lock_until <= {utc}
    -- guard: not-abandoned | S6 | an_abandoned_owner_takes_nothing_any_more | AND ? <> ''
    AND (c.buried IS NULL OR LOCATE($owner, c.buried) = 0)

-- name: tombstone(name, owner)
-- Leaves a tombstone: no attempt of $owner to acquire $name may succeed any more. At most a
-- thousand such owners are remembered.
INSERT INTO {companion} (name, token, buried)
-- guard: tombstone-new | S6 | an_abandoned_owner_takes_nothing_any_more | VALUES (?, 0, LEFT(?, 0))
VALUES ($name, 0, CONCAT($owner, ','))
ON DUPLICATE KEY UPDATE
    -- guard: tombstone-others | S6 | two_abandoned_owners | buried = CONCAT(?, ',')
    buried = LEFT(CONCAT($owner, ',', COALESCE(buried, '')), 33000)
