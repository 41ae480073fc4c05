(l.far IS NOT NULL AND EXISTS (
    SELECT 1 FROM {places} AS b WHERE b.name = $1 AND b.owner = $2 AND b.entered > coalesce(l.moved, 0::bigint)
))
