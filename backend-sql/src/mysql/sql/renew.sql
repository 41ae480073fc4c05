-- Renews a batch: ?1 is a JSON array of [name in hexadecimal digits, owner, lease]. Each row is found
-- by its key, and no other is locked; one that another transaction has is left out, since an UPDATE would wait
-- for it. Nothing is inserted: the rows are there, and are ours until the statement ends. A batch may be carried
-- out after one that was sent later: it never shortens. The insert id of the answer is the clock of this statement,
-- for renewed.sql. The version makes every row that was found a changed one, and each counts as two.
INSERT INTO {locks} (name, token, version, expires, kept)
SELECT l.name, l.token, l.version, l.expires, l.kept
FROM {batch} STRAIGHT_JOIN {locks} AS l ON l.name = UNHEX(g.name) AND {renews}
WHERE l.kept <> 1
-- guard: renew-expired
AND l.expires > {now}
-- guard: renew-skips
FOR UPDATE SKIP LOCKED
ON DUPLICATE KEY UPDATE
    expires = GREATEST({locks}.expires, LAST_INSERT_ID({now}) + g.lease),
    version = {locks}.version + 1
