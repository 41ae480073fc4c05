//! `SELECT 1`, and an update of one row by its primary key, in a table of its own.

use async_trait::async_trait;

use super::{Floor, Trouble};

const DROP: &str = "DROP TABLE IF EXISTS leasehold_compare_floor";
const FILL: &str = "INSERT INTO leasehold_compare_floor (id, value) VALUES (1, 0)";
const WRITE: &str = "UPDATE leasehold_compare_floor SET value = value + 1 WHERE id = 1";

/// The same for each database: its name, its URL's scheme there, its pool, and how the table is made.
macro_rules! table {
    ($feature:literal $name:ident $pool:path, $connect:expr, $create:literal) => {
        #[cfg(feature = $feature)]
        pub(super) async fn $name(url: &str) -> Result<Box<dyn Floor>, Trouble> {
            struct Table($pool);

            #[async_trait]
            impl Floor for Table {
                async fn ping(&self) -> Result<(), Trouble> {
                    sqlx::query("SELECT 1").execute(&self.0).await?;
                    Ok(())
                }

                async fn write(&self) -> Result<(), Trouble> {
                    sqlx::query(WRITE).execute(&self.0).await?;
                    Ok(())
                }

                async fn close(&self) {
                    let _ = sqlx::query(DROP).execute(&self.0).await;
                    self.0.close().await;
                }
            }

            let pool = $connect(url).await?;
            for statement in [DROP, $create, FILL] {
                sqlx::query(statement).execute(&pool).await?;
            }
            Ok(Box::new(Table(pool)))
        }
    };
}

/// As `backend-sql` opens its file.
#[cfg(feature = "sqlite")]
async fn as_the_locks(url: &str) -> Result<sqlx::SqlitePool, sqlx::Error> {
    use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
    let options: SqliteConnectOptions = url.parse()?;
    let options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    sqlx::SqlitePool::connect_with(options.synchronous(SqliteSynchronous::Normal)).await
}

// Unlogged, as the locks are.
table! { "postgres" postgres sqlx::PgPool, sqlx::PgPool::connect,
"CREATE UNLOGGED TABLE leasehold_compare_floor (id INT PRIMARY KEY, value BIGINT NOT NULL)" }
table! { "mysql" mysql sqlx::MySqlPool, sqlx::MySqlPool::connect,
"CREATE TABLE leasehold_compare_floor (id INT PRIMARY KEY, value BIGINT NOT NULL) ENGINE = InnoDB" }
table! { "sqlite" sqlite sqlx::SqlitePool, as_the_locks,
"CREATE TABLE leasehold_compare_floor (id INTEGER PRIMARY KEY, value INTEGER NOT NULL)" }
