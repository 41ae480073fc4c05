(({locks}.expires <= {now} OR (
-- guard: held
{locks}.owner = ?2 AND
{locks}.kept = 0)) AND {unburied})
