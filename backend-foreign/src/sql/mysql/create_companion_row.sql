INSERT INTO {companion} (name, token) VALUES (?1, 0) ON DUPLICATE KEY UPDATE token = token
