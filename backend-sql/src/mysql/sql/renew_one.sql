-- Renews ?1 for ?3 if it is ?2's, and waits for its row. It may be carried out after one that was sent later: it
-- never shortens.
UPDATE {locks} SET
    expires = GREATEST(expires, {now} + ?3), version = LAST_INSERT_ID(version + 1)
WHERE name = ?1 AND (owner = ?2 OR {has_reader}) AND kept <> 1 AND expires > {now}
