-- Whether the table ?1 is there, and may be used.
SELECT COUNT(*) FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = ?1
