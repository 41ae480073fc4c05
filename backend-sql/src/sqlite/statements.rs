//! The statements, with the tables' names in them.

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use crate::tables::Tables;

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
    insert create take look free adopt renew release keep raise force list abandon raise_watermark
    sweep forget longest_lease set_longest_lease identity
}

/// Cloning it does not copy the text.
fn shared(tables: &Tables, text: &str) -> SqlStr {
    let text: std::sync::Arc<str> = tables.fill(text, '"').into();
    AssertSqlSafe(text).into_sql_str()
}

/// The SQL that makes the tables.
pub(super) fn schema(tables: &Tables, longest_lease_ms: i64) -> String {
    let text =
        include_str!("sql/schema.sql").replace("{longest_lease}", &longest_lease_ms.to_string());
    tables.fill(&text, '"')
}

/// The SQL that makes the table of the fence.
pub(super) fn fence_schema(tables: &Tables) -> String {
    tables.fill(include_str!("sql/fence.sql"), '"')
}

/// The statements of the fence: admit, and what was admitted.
pub(super) fn fence(tables: &Tables) -> (SqlStr, SqlStr) {
    let admit = shared(tables, include_str!("sql/admit.sql"));
    (admit, shared(tables, include_str!("sql/admitted.sql")))
}
