-- Forgets owners abandoned more than an hour ago: no statement of theirs is under way.
DELETE FROM {abandoned} WHERE at + 3600000000 < {now}
