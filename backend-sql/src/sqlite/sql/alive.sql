CASE WHEN q.epoch = {epoch} THEN
-- guard: entry-alive
q.heard > {now} - {life}
ELSE abs(q.wall - {wall}) < {life} / 1000 END
