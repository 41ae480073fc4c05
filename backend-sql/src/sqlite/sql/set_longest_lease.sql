-- Sets the store's longest lease to ?1 milliseconds.
UPDATE {settings} SET longest_lease = ?1
