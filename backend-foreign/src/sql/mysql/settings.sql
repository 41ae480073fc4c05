-- The settings, and whether statements of this session are transactions of their own.
SELECT version, longest_lease, identity, @@autocommit FROM {store} WHERE id = 1
