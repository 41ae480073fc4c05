-- name, owner, token, expires
INSERT INTO leasehold_compare_floor VALUES (?, ?, LAST_INSERT_ID(?), ?)
ON DUPLICATE KEY UPDATE
token = IF(expires <= 10, LAST_INSERT_ID(GREATEST(VALUES(token), token + 1)), token),
owner = IF(expires <= 10, VALUES(owner), owner),
expires = IF(expires <= 10, VALUES(expires), expires)
