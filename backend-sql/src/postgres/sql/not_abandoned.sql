true
-- guard: not-abandoned
AND (l.buried IS NULL OR $2 <> ALL (l.buried))
