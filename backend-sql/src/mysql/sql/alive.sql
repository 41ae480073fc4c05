q.heard > 0
-- guard: place-heard
AND q.heard > {now} - {life}
