-- Settings for a session of our own pool, which no other client uses, not even by way of a pooler. The time limit in ms is
-- for the wait for a row or table: when a client gives a statement up, its session ends with this wait. Statements are planned once, when the table
-- may be small: a scan would be right then, and slow later. A plan without an alternative then counts as expensive, but
-- compiling it (jit) is not worth it.
SET lock_timeout = {limit}; SET enable_seqscan = off; SET jit = off
