-- The store's longest lease.
SELECT longest_lease FROM {settings}
