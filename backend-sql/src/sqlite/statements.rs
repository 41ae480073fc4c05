//! The statements: the text of the SQL files with the tables' names filled in.

use lock_core::{Mode, OwnerId};
use sqlx::SqlStr;

use crate::{
    sql_files::{self, SqlFiles, Syntax},
    tables::Tables,
    tunables::{CLAIM_WINDOW, ENTRY_LIFE, FAR},
};

const FILES: [&str; 10] = [
    include_str!("sql/schema.sql"),
    include_str!("sql/acquire.sql"),
    include_str!("sql/queue.sql"),
    include_str!("sql/release.sql"),
    include_str!("sql/renew.sql"),
    include_str!("sql/readers.sql"),
    include_str!("sql/admin.sql"),
    include_str!("sql/sweep.sql"),
    include_str!("sql/fence.sql"),
    include_str!("sql/record.sql"),
];

fn with_files<T>(tables: &Tables, read: impl FnOnce(&SqlFiles<'_>) -> T) -> T {
    let values = [
        ("shared", format!("'{}'", OwnerId::READERS)),
        ("life", ENTRY_LIFE.as_nanos().to_string()),
        ("claim_window", CLAIM_WINDOW.as_nanos().to_string()),
        ("far", FAR.to_string()),
        ("most", Mode::MOST_READERS.to_string()),
    ];
    let syntax = Syntax { quote: '"', argument: |at| format!("?{at}") };
    read(&SqlFiles::new(&FILES, &values, tables, syntax))
}

sql_files::statements! {
    SqlStr, with_files():
    insert take create_row read_row note_sighting abandon withdraw
    enter leave first release keep renew raise reown join part renew_readers
    list force longest_lease set_longest_lease identity highest_token version
    sweep_watermark sweep forget forget_seen forget_entries forget_records are_made
    write_record is_written read_record synchronous
}

/// The SQL that makes the tables.
pub(super) fn schema(tables: &Tables, longest_lease_ms: i64) -> String {
    let text = with_files(tables, |files| files.script("schema"));
    text.replace("{longest_lease}", &longest_lease_ms.to_string())
}

/// The SQL that makes the table of the fence.
pub(super) fn fence_schema(tables: &Tables) -> String {
    with_files(tables, |files| files.script("fence_schema"))
}

/// The statements of the fence: admit, and what was admitted.
pub(super) fn fence(tables: &Tables) -> [SqlStr; 2] {
    with_files(tables, |files| ["admit", "admitted"].map(|name| files.statement(name).into()))
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

    use super::*;

    struct File {
        sql: Statements,
        file: SqliteConnection,
    }

    impl File {
        /// A database in memory with one lock, which is held by the clock of `theirs` for a lease
        /// of 100.
        async fn new() -> Self {
            let tables = Tables::new("x").unwrap();
            let sql = Statements::new(&tables);
            let mut file = SqliteConnection::connect("sqlite::memory:").await.unwrap();
            let made = AssertSqlSafe(schema(&tables, 30_000));
            sqlx::raw_sql(made).execute(&mut file).await.unwrap();
            let row = "INSERT INTO x_locks (name, owner, label, token, version, lease, expires, epoch, kept) \
                 VALUES ('job', '0', 'l', 1, 7, 100, 5000, 'theirs', 0)";
            sqlx::query(row).execute(&mut file).await.unwrap();
            Self { sql, file }
        }

        async fn adopt(&mut self, now: i64, epoch: &str, seen: i64) -> u64 {
            let adopt =
                sqlx::query(self.sql.note_sighting.clone()).bind("job").bind(now).bind(epoch);
            adopt.bind(seen).execute(&mut self.file).await.unwrap().rows_affected()
        }

        async fn is_free(&mut self, now: i64, epoch: &str) -> bool {
            let held = sqlx::query(self.sql.list.clone()).bind("").bind(now).bind(epoch);
            let held = held.bind(0).bind(1);
            held.fetch_optional(&mut self.file).await.unwrap().is_none()
        }

        /// Runs what the holder, or an operator, would.
        async fn run(&mut self, sql: &'static str) {
            sqlx::query(sql).execute(&mut self.file).await.unwrap();
        }
    }

    /// A holder in another time namespace may renew between a read of its row and the note: the
    /// clock read before must not cut that lease short.
    #[tokio::test]
    async fn a_row_that_has_changed_since_it_was_seen_is_not_adopted() {
        let mut file = File::new().await;
        for (seen, adopted) in [(6, 0), (7, 1), (7, 0)] {
            assert_eq!(file.adopt(10, "ours", seen).await, adopted, "version {seen}");
        }
        assert!(!file.is_free(109, "ours").await && file.is_free(110, "ours").await);
        // Each write of the holder starts the lease anew, and so does another holder of a row that
        // was made anew.
        for change in ["version = version + 1", "token = token + 1, version = 7"] {
            let sql = format!("UPDATE x_locks SET {change}");
            sqlx::query(AssertSqlSafe(sql)).execute(&mut file.file).await.unwrap();
            assert!(!file.is_free(1_000, "ours").await, "{change}");
        }
        assert_eq!(file.adopt(1_000, "ours", 7).await, 1);
        assert!(!file.is_free(1_099, "ours").await && file.is_free(1_100, "ours").await);
    }

    /// Two clients with different clocks wait for a holder that has died: neither makes the other
    /// wait longer.
    #[tokio::test]
    async fn clocks_that_read_in_turn_see_the_end_of_a_dead_holder() {
        let mut file = File::new().await;
        for turn in 0..10 {
            // The one clock is 9,000 ahead of the other.
            let adopted = u64::from(turn == 0);
            assert_eq!(file.adopt(turn * 10, "one", 7).await, adopted);
            assert_eq!(file.adopt(9_005 + turn * 10, "two", 7).await, adopted);
        }
        assert!(!file.is_free(99, "one").await && file.is_free(100, "one").await);
        assert!(!file.is_free(9_104, "two").await && file.is_free(9_105, "two").await);
        assert!(!file.is_free(9_105, "three").await, "a clock that has not seen it takes nothing");
    }

    #[tokio::test]
    async fn sightings_of_what_has_changed_are_forgotten() {
        let mut file = File::new().await;
        let mut left = async |change: &'static str| {
            assert_eq!(file.adopt(10, "ours", 7).await, 1);
            file.run(change).await;
            let forget = sqlx::query(file.sql.forget_seen.clone());
            forget.execute(&mut file.file).await.unwrap();
            let left = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM x_seen");
            let left = left.fetch_one(&mut file.file).await.unwrap();
            file.run("DELETE FROM x_seen").await;
            file.run("UPDATE x_locks SET version = 7").await;
            left
        };
        assert_eq!(left("UPDATE x_locks SET expires = expires").await, 1);
        assert_eq!(left("UPDATE x_locks SET version = 8").await, 0);
        assert_eq!(left("UPDATE x_locks SET token = 2").await, 0);
        assert_eq!(left("DELETE FROM x_locks").await, 0);
    }

    #[test]
    fn the_statements_as_they_are_sent_are_on_record() {
        let sent = with_files(&Tables::new("leasehold").unwrap(), |files| files.as_sent());
        crate::sql_files::assert_on_record("sqlite", &sent);
    }
}
