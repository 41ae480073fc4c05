//! The statements, with the tables' names in them.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use crate::tables::Tables;

/// The server's clock at the moment at which it is read, not at the start of the transaction.
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// Which cluster, database and marker these are. A table that was made anew has another oid; a
/// replica has its primary's cluster, but its unlogged tables are empty.
const HERE: &str = "(SELECT system_identifier AS system, \
    (SELECT oid FROM pg_database WHERE datname = current_database()) AS database, \
    '{marker}'::regclass::oid AS itself FROM pg_control_system())";

/// Whether the marker is this store's, and its time has come.
const GRANTING: &str = "EXISTS (SELECT 1 FROM {marker} AS m, {here} AS here \
    WHERE (m.system, m.database, m.itself) = (here.system, here.database, here.itself) \
    AND m.grants_from <= {now})";

/// The statements of one store. Their text is ours but for the tables' names, which were checked.
macro_rules! statements {
    ($($name:ident)*) => {
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: SqlStr,)*
        }

        impl Statements {
            pub(super) fn new(tables: &Tables) -> Self {
                Self {
                    $($name: shared(tables, include_str!(concat!("sql/", stringify!($name), ".sql"))),)*
                }
            }
        }
    };
}

statements! {
    insert create take look free renew release keep raise force list abandon chase raise_watermark
    sweep forget settings set_longest_lease open_at_once mark quarantine clock exists
    identity
}

fn filled(tables: &Tables, text: &str) -> String {
    let text = text.replace("{granting}", GRANTING).replace("{here}", HERE).replace("{now}", NOW);
    tables.fill(&text, '"')
}

/// Cloning it does not copy the text.
pub(super) fn shared(tables: &Tables, text: &str) -> SqlStr {
    let text: Arc<str> = filled(tables, text).into();
    AssertSqlSafe(text).into_sql_str()
}

/// The SQL that makes the tables.
pub(super) fn schema(tables: &Tables, longest_lease: i64) -> String {
    let text =
        include_str!("sql/schema.sql").replace("{longest_lease}", &longest_lease.to_string());
    filled(tables, &text)
}

/// The SQL that makes the table of the fence.
pub(super) fn fence_schema(tables: &Tables) -> String {
    filled(tables, include_str!("sql/fence.sql"))
}

/// The fence's statement.
pub(super) fn admit(tables: &Tables) -> SqlStr {
    shared(tables, include_str!("sql/admit.sql"))
}
