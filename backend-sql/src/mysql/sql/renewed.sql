-- Which owners of the batch ?1 still hold their names. What is held now was so when it was renewed.
SELECT l.owner
FROM {batch} STRAIGHT_JOIN {locks} AS l ON l.name = UNHEX(g.name) AND l.owner = g.owner
WHERE l.kept = 0 AND l.expires > {now}
