({locks}.buried IS NULL OR
-- guard: not-abandoned
LOCATE(?2, {locks}.buried) = 0
)
