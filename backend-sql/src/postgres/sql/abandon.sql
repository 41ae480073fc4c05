-- No attempt of $1 that is read from now on may succeed.
INSERT INTO {abandoned} (owner, at) VALUES ($1, {now}) ON CONFLICT DO NOTHING
