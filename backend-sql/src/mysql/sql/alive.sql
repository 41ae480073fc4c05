q.heard > 0
-- guard: entry-alive
AND q.heard > {now} - {life}
