-- Answers whether each of these tables exists and may be read, the schemas in which names are looked up, in their order,
-- why a table of another role is refused, and why one is refused for the way in which it is stored. It names the tables only
-- as text, so no code of another role runs here.
SELECT {found}, pg_catalog.current_schemas(true)::pg_catalog.text[], (
{refused_table}
), (
{refused_storage}
)
