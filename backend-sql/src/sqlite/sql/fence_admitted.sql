-- The highest token seen for ?1.
SELECT token FROM {fence} WHERE resource = ?1
