-- Last step: forgets the names ?1, a JSON array of [name in hexadecimal digits].
DELETE {locks} FROM {batch} STRAIGHT_JOIN {locks} ON {locks}.name = UNHEX(g.name)
