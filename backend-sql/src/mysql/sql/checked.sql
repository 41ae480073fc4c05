-- Marks that the token ?2 of ?1, which readers share, was checked: those who join later do not check it.
UPDATE {locks} SET kept = 0 WHERE name = ?1 AND token = ?2 AND kept = 2
