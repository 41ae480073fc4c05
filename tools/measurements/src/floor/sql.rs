//! The floors of SQL databases: `SELECT 1`; an update of one row by its primary key; and an upsert
//! and a conditional update as the bare lock. They use a table of their own, and connections
//! without a pool: a pool would test each connection after each statement, which is a second
//! request.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use sqlx::{Connection as _, Row as _};
use tokio::sync::Mutex;

use super::{Floor, Setting, Trouble};

const DROP: &str = "DROP TABLE IF EXISTS leasehold_compare_floor";
const FILL: &str = "INSERT INTO leasehold_compare_floor (name, token, expires) VALUES ('', 0, 0)";
const WRITE: &str = "UPDATE leasehold_compare_floor SET token = token + 1 WHERE name = ''";
const OWNER: &str = "0123456789abcdef0123456789abcdef";
/// Takes a free name: its arguments are name, owner, token and expiry. For PostgreSQL and SQLite.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
const TAKE: &str = "INSERT INTO leasehold_compare_floor AS l VALUES ($1, $2, $3, $4) \
    ON CONFLICT (name) DO UPDATE \
    SET owner = excluded.owner, token = l.token + 1, expires = excluded.expires \
    WHERE l.owner IS NULL OR l.expires <= 10 RETURNING token";

/// What differs between the databases.
struct Dialect {
    create: &'static str,
    take: &'static str,
    free: &'static str,
    /// The names of settings, each with a query for its value as a text.
    about: &'static [(&'static str, &'static str)],
    /// A query whose last column is a number as a text, and what that number counts.
    count: Option<(&'static str, &'static str)>,
    /// Whether the query itself is counted.
    counts_itself: bool,
}

/// Implements the floor for one database: the type of its connections, how many there are, and how
/// to connect.
macro_rules! table {
    ($feature:literal $name:ident $connection:path, $count:literal, $connect:expr, $dialect:expr) => {
        #[cfg(feature = $feature)]
        pub(super) async fn $name(url: &str) -> Result<Box<dyn Floor>, Trouble> {
            const DIALECT: Dialect = $dialect;
            struct Table {
                /// A task uses the one at its number.
                connections: [Mutex<$connection>; $count],
                asked: AtomicU64,
            }

            #[async_trait]
            impl Floor for Table {
                async fn ping(&self) -> Result<(), Trouble> {
                    let mut connection = self.connections[0].lock().await;
                    sqlx::query("SELECT 1").execute(&mut *connection).await?;
                    Ok(())
                }

                async fn write(&self) -> Result<(), Trouble> {
                    let mut connection = self.connections[0].lock().await;
                    sqlx::query(WRITE).execute(&mut *connection).await?;
                    Ok(())
                }

                async fn pair(&self, task: usize) -> Result<(), Trouble> {
                    let name = format!("task {task}");
                    let connection = &self.connections[task % self.connections.len()];
                    let take = sqlx::query(DIALECT.take).bind(&name).bind(OWNER);
                    let take = take.bind(1_i64).bind(20_i64);
                    take.fetch_all(&mut *connection.lock().await).await?;
                    let free = sqlx::query(DIALECT.free).bind(&name).bind(OWNER);
                    let freed = free.execute(&mut *connection.lock().await).await?;
                    match freed.rows_affected() {
                        1 => Ok(()),
                        _ => Err("the bare lock was not held".into()),
                    }
                }

                fn pair_is(&self) -> &'static str {
                    "an upsert and a conditional update"
                }

                async fn about(&self) -> Vec<Setting> {
                    let mut connection = self.connections[0].lock().await;
                    let mut about = Vec::new();
                    for (name, query) in DIALECT.about {
                        let row = sqlx::query(*query).fetch_one(&mut *connection).await;
                        if let Ok(value) = row.and_then(|row| row.try_get::<String, _>(0)) {
                            about.push(Setting::new(*name, value));
                        }
                    }
                    about
                }

                fn counts(&self) -> Option<&'static str> {
                    DIALECT.count.map(|(_, what)| what)
                }

                async fn count(&self) -> Option<u64> {
                    let (query, _) = DIALECT.count?;
                    let mut connection = self.connections[0].lock().await;
                    let row = sqlx::query(query).fetch_one(&mut *connection).await.ok()?;
                    let text: String = row.try_get(row.len() - 1).ok()?;
                    let own = u64::from(DIALECT.counts_itself);
                    let asked = self.asked.fetch_add(own, Ordering::Relaxed) + own;
                    text.parse::<u64>().ok()?.checked_sub(asked)
                }

                async fn close(&self) {
                    let mut connection = self.connections[0].lock().await;
                    let _ = sqlx::query(DROP).execute(&mut *connection).await;
                }
            }

            let mut connections = Vec::new();
            for _ in 0..$count {
                connections.push(Mutex::new($connect(url).await?));
            }
            for statement in [DROP, DIALECT.create, FILL] {
                sqlx::query(statement).execute(connections[0].get_mut()).await?;
            }
            let connections = connections.try_into().unwrap_or_else(|_| unreachable!());
            Ok(Box::new(Table { connections, asked: AtomicU64::new(0) }))
        }
    };
}

/// As `backend-sql` opens its file.
#[cfg(feature = "sqlite")]
async fn as_the_locks(url: &str) -> Result<sqlx::SqliteConnection, sqlx::Error> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
    let options: SqliteConnectOptions = url.parse()?;
    let options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    let options = options.synchronous(SqliteSynchronous::Normal);
    // Only this user may read the file, as with the file of the locks. An existing file is not
    // touched.
    let mut new = std::fs::OpenOptions::new();
    let _ = new.write(true).create_new(true).mode(0o600).open(options.get_filename());
    sqlx::SqliteConnection::connect_with(&options).await
}

table! { "postgres" postgres sqlx::PgConnection, 4, sqlx::PgConnection::connect, Dialect {
    // Unlogged, as the locks are, with room on each page as they have it.
    create: "CREATE UNLOGGED TABLE leasehold_compare_floor (name TEXT PRIMARY KEY, owner TEXT, \
             token BIGINT NOT NULL, expires BIGINT NOT NULL) WITH (fillfactor = 50)",
    take: TAKE,
    free: "UPDATE leasehold_compare_floor SET owner = NULL WHERE name = $1 AND owner = $2",
    about: &[
        ("version", "SHOW server_version"),
        ("fsync", "SHOW fsync"),
        ("synchronous_commit", "SHOW synchronous_commit"),
        ("shared_buffers", "SHOW shared_buffers"),
    ],
    // Immediate, unlike the statistics.
    count: Some((
        "SELECT pg_snapshot_xmax(pg_current_snapshot())::text",
        "transactions that write",
    )),
    counts_itself: false,
} }
table! { "mysql" mysql sqlx::MySqlConnection, 4, sqlx::MySqlConnection::connect, Dialect {
    create: "CREATE TABLE leasehold_compare_floor (name VARBINARY(255) PRIMARY KEY, \
             owner VARBINARY(32), token BIGINT NOT NULL, expires BIGINT NOT NULL) ENGINE = InnoDB",
    take: "INSERT INTO leasehold_compare_floor VALUES (?, ?, LAST_INSERT_ID(?), ?) \
           ON DUPLICATE KEY UPDATE \
           token = IF(expires <= 10, LAST_INSERT_ID(GREATEST(VALUES(token), token + 1)), token), \
           owner = IF(expires <= 10, VALUES(owner), owner), \
           expires = IF(expires <= 10, VALUES(expires), expires)",
    free: "UPDATE leasehold_compare_floor SET owner = NULL, expires = 0 \
           WHERE name = ? AND owner = ?",
    about: &[
        ("version", "SELECT CAST(VERSION() AS CHAR)"),
        (
            "innodb_flush_log_at_trx_commit",
            "SELECT CAST(@@innodb_flush_log_at_trx_commit AS CHAR)",
        ),
        ("sync_binlog", "SELECT CAST(@@sync_binlog AS CHAR)"),
        ("log_bin", "SELECT CAST(@@log_bin AS CHAR)"),
        ("innodb_buffer_pool_size", "SELECT CAST(@@innodb_buffer_pool_size AS CHAR)"),
    ],
    count: Some(("SHOW GLOBAL STATUS LIKE 'Questions'", "statements")),
    counts_itself: true,
} }
table! { "sqlite" sqlite sqlx::SqliteConnection, 1, as_the_locks, Dialect {
    create: "CREATE TABLE leasehold_compare_floor (name TEXT PRIMARY KEY, owner TEXT, \
             token INTEGER NOT NULL, expires INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    take: TAKE,
    free: "UPDATE leasehold_compare_floor SET owner = NULL WHERE name = $1 AND owner = $2",
    about: &[
        ("version", "SELECT sqlite_version()"),
        ("journal_mode", "SELECT journal_mode FROM pragma_journal_mode"),
        ("synchronous", "SELECT CAST(synchronous AS TEXT) FROM pragma_synchronous"),
    ],
    count: None,
    counts_itself: false,
} }
