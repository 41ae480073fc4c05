-- Resource, token, token. The highest token, of this one and what was there, is the insert id of the
-- answer: there is no RETURNING.
INSERT INTO {fence} (resource, token) VALUES (?, LAST_INSERT_ID(?))
ON DUPLICATE KEY UPDATE
    -- guard: fence
    token = LAST_INSERT_ID(GREATEST(token, ?))
