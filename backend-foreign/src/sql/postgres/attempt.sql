-- Attempts, and what keeps an abandoned owner from a late one.

-- name: acquire(name, owner, label, lease, above)
-- Acquires a name that has no row, or whose lock_until has passed. $above is floor + 1. The new
-- values of an existing row use the clock at the time when the row was locked. The tombstone is
-- checked twice: before anything is acquired, and in the newest state of the companion row. If the
-- second check finds one, a division by zero ends the statement, so that all of it is undone, and
-- it is repeated. Then the first check finds the tombstone.
WITH taken AS (
    INSERT INTO {lock} AS l (name, lock_until, locked_at, locked_by)
    SELECT $name, {utc} + $lease, {utc}, $owner
    WHERE NOT EXISTS (
        SELECT 1 FROM {companion} AS c WHERE c.name = $name
        -- guard: not-abandoned | S6 | an_abandoned_owner_has_an_answer | AND false
        AND pg_catalog.strpos(c.buried, $owner) > 0
    )
    ON CONFLICT (name) DO UPDATE
        SET lock_until = {utc} + $lease, locked_at = {utc}, locked_by = $owner
    -- guard: held | S1 | a_held_lock_is_refused_with_its_holder_and_token
    -- guard: held-by-others | S1 | a_foreign_holder_of_the_row
    WHERE l.lock_until <= {utc}
    RETURNING 1
)
INSERT INTO {companion} AS c (name, owner, label, token)
SELECT $name, $owner, $label,
    -- guard: floor-of-new | S2 | a_token_is_above_the_floor | $5 * 0 + 1
    -- guard: above-what-was-lost | S2 | a_token_after_a_loss | $5
    greatest({micros}, $above)
FROM taken
ON CONFLICT (name) DO UPDATE SET owner = $owner, label = $label,
    -- guard: above-the-last | S2 | a_token_is_above_the_floor | token = greatest(0, $5)
    -- guard: above-the-floor | S2 | a_token_is_above_the_floor | token = c.token + 1
    token = greatest({micros}, c.token + 1, $above)
RETURNING token
    -- guard: abandoned-meanwhile | S6 | an_attempt_abandoned_while_it_waits
    / CASE WHEN pg_catalog.strpos(c.buried, $owner) > 0 THEN 0 ELSE 1 END
    -- No statement that is older than half a minute succeeds.
    -- guard: young | S6 | an_attempt_of_one_who_has_gone
    / {young}

-- name: tombstone(name, owner)
-- Leaves a tombstone: no attempt of $owner to acquire $name may succeed any more. At most a
-- thousand such owners are remembered.
INSERT INTO {companion} AS c (name, token, buried)
-- guard: tombstone-new | S6 | an_abandoned_owner_takes_nothing_any_more |
--   VALUES ($1, 0, pg_catalog.left($2, 0))
VALUES ($name, 0, $owner || ',')
ON CONFLICT (name) DO UPDATE SET
    -- guard: tombstone-others | S6 | two_abandoned_owners | buried = $2::text || ','
    buried = pg_catalog.left(pg_catalog.concat($owner::text, ',', c.buried), 33000)
RETURNING 1::bigint
