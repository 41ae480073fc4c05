-- What is known of $1, and whether $2 is one of the readers that share it.
SELECT {columns}, {waiting}, coalesce({is_reader}, false) AS mine FROM {locks} AS l WHERE name = $1
