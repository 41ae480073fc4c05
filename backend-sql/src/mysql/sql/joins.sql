(({locks}.expires <= {now} OR (
-- guard: join-readers
{locks}.owner = {shared} AND
(LOCATE(?2, {locks}.readers) > 0 OR
-- guard: join-most
LENGTH({locks}.readers) < {most}
))) AND {not_abandoned})
