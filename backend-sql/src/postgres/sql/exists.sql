-- Whether each of these tables is there, and may be read; the schemas in which names are looked up, in their order; and why
-- a table of another role is refused. It names the tables in text alone: none of another role's code runs here.
SELECT {found}, pg_catalog.current_schemas(true)::pg_catalog.text[], (
{theirs}
)
