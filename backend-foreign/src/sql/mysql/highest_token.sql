SELECT COALESCE(MAX(token), 0) FROM {companion}
