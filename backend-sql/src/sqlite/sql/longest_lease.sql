-- The store's longest lease, in milliseconds.
SELECT longest_lease FROM {settings}
