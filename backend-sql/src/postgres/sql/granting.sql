true
-- guard: marker-store
AND m.store = {here}
-- guard: marker-itself
AND m.itself = m.tableoid
-- guard: marker-time
AND m.grants_from <= {now}
AND {persistence}
