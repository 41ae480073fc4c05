-- The store's longest lease, and whether statements of this session are transactions of their own.
SELECT longest_lease, @@autocommit FROM {settings} WHERE id = 1
