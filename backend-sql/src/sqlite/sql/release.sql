-- Gives ?1 back if it is ?2's. The row stays for its token. ?3 now, ?4 epoch.
UPDATE {locks} SET owner = NULL, label = NULL, version = version + 1
WHERE name = ?1
    -- guard: release-owner
    AND owner = ?2
    AND (epoch <> ?4 OR expires > ?3)
RETURNING version
