({locks}.buried IS NULL OR
-- guard: unburied
LOCATE(?2, {locks}.buried) = 0
)
