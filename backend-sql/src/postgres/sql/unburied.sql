true
-- guard: unburied
AND (l.buried IS NULL OR $2 <> ALL (l.buried))
