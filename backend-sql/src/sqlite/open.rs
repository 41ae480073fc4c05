//! The file: found or made, and statements on it that wait for others without blocking a thread.

use std::{
    future::Future,
    path::{Path, PathBuf},
    time::Duration,
};

use lock_core::{Error, ErrorKind, StoreSettings, SystemEnv, jittered};
use sqlx::{
    AssertSqlSafe, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::{sync::OnceCell, time::Instant};

use super::{error::failure, statements};
use crate::{error::Failure, tables::Tables};

/// SQLite waits this long by itself, blocking the connection's thread; after that we do.
const OWN_WAIT: Duration = Duration::from_millis(2);
/// The longest pause between tries.
const PAUSE: Duration = Duration::from_millis(4);

#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    timeout: Duration,
    pub(super) tables: Tables,
    pub(super) longest_lease: Option<Duration>,
    given: Option<SqlitePool>,
    pool: OnceCell<SqlitePool>,
}

impl File {
    pub(super) fn new(
        path: PathBuf,
        given: Option<SqlitePool>,
        timeout: Duration,
        tables: Tables,
        longest_lease: Option<Duration>,
    ) -> Result<Self, Error> {
        if given.is_none() {
            check_path(&path)?;
        }
        Ok(Self { path, timeout, tables, longest_lease, given, pool: OnceCell::new() })
    }

    /// Whether there is a database to read from yet.
    pub(super) fn is_there(&self) -> bool {
        self.given.is_some() || self.path.exists()
    }

    /// The pool, with the tables in its database.
    pub(super) async fn pool(&self) -> Result<&SqlitePool, Error> {
        self.pool.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> Result<SqlitePool, Error> {
        let pool = match &self.given {
            Some(pool) => pool.clone(),
            None => self.connect(),
        };
        let longest = self.longest_lease.unwrap_or(StoreSettings::DEFAULT_LONGEST_LEASE);
        let schema = statements::schema(&self.tables, longest.as_millis() as i64);
        // Looked for first, so that a role that may not create tables can use those that are there.
        let known = self.tables.fill("SELECT 1 FROM {settings}", '"');
        let found = sqlx::query_scalar::<_, i64>(AssertSqlSafe(known));
        if let Ok(Some(_)) = found.fetch_optional(&pool).await {
            return Ok(pool);
        }
        self.patiently(|| async {
            sqlx::raw_sql(AssertSqlSafe(schema.clone())).execute(&pool).await
        })
        .await?;
        Ok(pool)
    }

    fn connect(&self) -> SqlitePool {
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(OWN_WAIT);
        // One connection: SQLite has one writer at a time, and statements of one connection run in
        // the order in which they were sent.
        SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(self.timeout)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_lazy_with(options)
    }

    /// Runs a statement, again and again while another has the database, up to the time limit.
    pub(super) async fn patiently<T, Fut>(&self, run: impl Fn() -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, sqlx::Error>>,
    {
        let end = Instant::now() + self.timeout;
        loop {
            match run().await {
                Ok(done) => return Ok(done),
                Err(error) => match failure(error, &self.path) {
                    Failure::Busy if Instant::now() < end => {
                        tokio::time::sleep(jittered(&SystemEnv, PAUSE)).await;
                    }
                    Failure::Busy => {
                        let message = format!(
                            "others kept writing to {} for {}",
                            self.path.display(),
                            humantime::format_duration(self.timeout)
                        );
                        return Err(Error::new(ErrorKind::Unavailable, message));
                    }
                    Failure::Error(error) => return Err(error),
                },
            }
        }
    }

    pub(super) async fn close(&self) {
        // A pool that was given stays its owner's.
        if let Some(pool) = self.pool.get().filter(|_| self.given.is_none()) {
            pool.close().await;
        }
    }
}

/// What can be told before anything is written.
fn check_path(path: &Path) -> Result<(), Error> {
    let refuse = |what: String| Err(Error::new(ErrorKind::Config, what));
    let shown = path.display();
    if path.is_dir() {
        return refuse(format!("{shown} is a directory; allowed is a file in an existing folder"));
    }
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return refuse(format!(
            "{shown} cannot be made, since {} is no folder; allowed is a file in an existing folder",
            folder.display()
        ));
    }
    Ok(())
}
