-- Which store this is.
SELECT identity FROM {settings} WHERE id = 1
