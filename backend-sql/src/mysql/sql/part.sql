-- Takes the reader ?2 away from those who share ?1. The last one holds it alone from here on, and then gives it back. The insert
-- id of the answer is 1 if others are left, and 2 if not.
UPDATE {locks} SET
    version = version + LEAST(1, CAST(LAST_INSERT_ID(IF(LENGTH(readers) = {reader}, 2, 1)) AS SIGNED)),
    owner = IF(LENGTH(readers) = {reader}, ?2, owner),
    readers = IF(LENGTH(readers) = {reader}, NULL,
        CONCAT(LEFT(readers, LOCATE(?2, readers) - 1), SUBSTR(readers, LOCATE(?2, readers) + {reader})))
WHERE name = ?1 AND {has_reader} AND expires > {now}
