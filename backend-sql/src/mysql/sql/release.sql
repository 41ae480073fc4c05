-- Gives ?1 back if it is ?2's. ?3 is 1 if the owner has not checked its token: then the row stays marked. The row stays for its token, and the owner in it, so that its length is the
-- same: InnoDB changes it in its place. The answer's insert id is the new version.
UPDATE {locks} SET expires = 0, kept = IF(?3 = 1, kept, 0), version = LAST_INSERT_ID(version + 1)
WHERE name = ?1
    -- guard: release-owner
    AND owner = ?2
    AND expires > {now}
