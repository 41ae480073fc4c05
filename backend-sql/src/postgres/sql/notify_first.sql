pg_catalog.pg_notify(
-- guard: tells-first
'leasehold_' || pg_catalog.substr(waiters[1], 33, 32)
, pg_catalog.left(waiters[1], 32))
