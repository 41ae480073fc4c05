-- What is known of $1.
SELECT {columns} FROM {locks} WHERE name = $1
