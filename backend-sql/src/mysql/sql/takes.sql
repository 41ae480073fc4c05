(({locks}.expires <= {now} OR (
-- guard: held
{locks}.owner = ?2 AND
{locks}.kept <> 1)) AND {not_abandoned})
