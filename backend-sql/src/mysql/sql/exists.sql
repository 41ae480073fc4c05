-- Whether the table ?1 is there, and may be used: 1 for a table, and 0 for a view or what else may have such a name.
SELECT table_type = 'BASE TABLE' FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = ?1
