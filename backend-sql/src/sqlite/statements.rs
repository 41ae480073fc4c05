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
    insert create take look free adopt renew release keep raise force list abandon withdraw
    raise_watermark sweep forget longest_lease set_longest_lease identity
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

#[cfg(test)]
mod tests {
    use sqlx::{Connection as _, SqliteConnection};

    use super::*;

    /// A holder in another time namespace may renew between a look at its row and the adoption: the
    /// clock read before must not cut that lease short.
    #[tokio::test]
    async fn a_row_that_has_changed_since_it_was_seen_is_not_adopted() {
        let tables = Tables::new("x").unwrap();
        let sql = Statements::new(&tables);
        let mut file = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(schema(&tables, 30_000))).execute(&mut file).await.unwrap();
        let row = "INSERT INTO x_locks (name, owner, label, token, version, lease, expires, epoch, kept) \
             VALUES ('job', '0', 'l', 1, 7, 100, 5000, 'theirs', 0)";
        sqlx::query(row).execute(&mut file).await.unwrap();
        for (seen, adopted) in [(6_i64, 0), (7, 1), (7, 0)] {
            let adopt = sqlx::query(sql.adopt.clone()).bind("job").bind(10_i64).bind("ours");
            let done = adopt.bind(seen).execute(&mut file).await.unwrap();
            assert_eq!(done.rows_affected(), adopted, "version {seen}");
        }
        let expires = sqlx::query_scalar::<_, i64>("SELECT expires FROM x_locks");
        assert_eq!(expires.fetch_one(&mut file).await.unwrap(), 110);
    }
}
