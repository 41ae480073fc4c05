q.heard > 0
-- guard: entry-alive
AND q.heard > {now} - {life}
-- guard: entry-future
AND q.heard < {now} + {life}
