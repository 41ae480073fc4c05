-- For a session of our own pool, which is nobody else's, with a time limit in ms for the wait for a row or table: a client that
-- gives a statement up leaves its session to it, which ends with this wait. Statements are planned once, when the table
-- may be small: a scan of it would be right then, and slow later. What has no other plan counts as dear by this, and is
-- not worth compiling.
SET lock_timeout = {limit}; SET enable_seqscan = off; SET jit = off
