EXISTS (SELECT 1 FROM {queue} AS q WHERE q.name = ?1 AND {alive}
-- guard: barging
AND q.position < IFNULL((SELECT m.position FROM {queue} AS m WHERE m.name = ?1 AND m.owner = ?2), 9223372036854775807)
)
