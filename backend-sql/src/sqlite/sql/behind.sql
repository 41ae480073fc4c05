(coalesce((SELECT q.owner FROM {queue} AS q WHERE q.name = ?1 AND {alive} ORDER BY q.position LIMIT 1), ?2) <> ?2)
