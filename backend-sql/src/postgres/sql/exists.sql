-- Whether the settings' table is there, and may be read.
SELECT to_regclass($1) IS NOT NULL
