-- The settings, and whether each statement of this session is its own transaction.
SELECT version, longest_lease, identity, @@autocommit FROM {store} WHERE id = 1
