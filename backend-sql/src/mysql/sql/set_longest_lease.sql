-- Sets the store's longest lease to ?1.
UPDATE {settings} SET longest_lease = ?1 WHERE id = 1
