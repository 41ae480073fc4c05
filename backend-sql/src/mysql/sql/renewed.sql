-- Which owners of the batch ?1 have what renew.sql sets, ?2 being the clock that it set them by: a lease
-- that had ended by that clock cannot. No clock is read here: one that was set back since would take an
-- expired grant for a held one.
SELECT g.owner
FROM {batch} STRAIGHT_JOIN {locks} AS l ON l.name = UNHEX(g.name) AND {renews}
WHERE l.kept <> 1
-- guard: renewed-clock
AND l.expires >= ?2 + g.lease
