-- What is known of $1.
SELECT {columns}, {waiting} FROM {locks} AS l WHERE name = $1
