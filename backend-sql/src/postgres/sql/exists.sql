-- Answers whether each of these tables exists and may be read, the schemas in which names are looked up, in their order,
-- and why a table of another role is refused. It names the tables only as text, so no code of another role runs here.
SELECT {found}, pg_catalog.current_schemas(true)::pg_catalog.text[], (
{refused_table}
)
