-- No attempt of ?1 that is read from now on may succeed.
INSERT IGNORE INTO {abandoned} (owner, at) VALUES (?1, {now})
