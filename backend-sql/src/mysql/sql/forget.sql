-- Forgets owners abandoned more than an hour ago: no statement of theirs is under way.
DELETE FROM {abandoned} WHERE at < {now} - 3600000000 LIMIT 1000
