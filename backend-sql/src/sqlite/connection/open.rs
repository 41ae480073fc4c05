//! Finds or makes the file, and runs statements on it. They wait for other writers without blocking a thread.

use std::{
    convert::identity,
    fs,
    future::Future,
    path::{Path, PathBuf},
};

use lock_core::{Error, ErrorKind};
use rustix::fs::{Access, access};
use sqlx::{
    AssertSqlSafe, FromRow, SqlStr, Sqlite, SqlitePool,
    query::Query,
    sqlite::{
        SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow,
        SqliteSynchronous,
    },
};
use tokio::sync::OnceCell;

use super::{error::failure, mode};
use crate::{
    error::Failure,
    retry::Retry,
    settings::{Settings, check_version, is_older},
    sqlite::statements,
    tables::Tables,
    tunables::sqlite::{OWN_WAIT, TRIES_AT_ONCE},
};

/// A statement with its arguments.
pub(crate) type Statement = Query<'static, Sqlite, SqliteArguments>;

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) retry: Retry,
    pub(crate) tables: Tables,
    pub(crate) settings: Settings,
    given: Option<SqlitePool>,
    /// Whether the users of its group may use a file that we make.
    group: bool,
    pool: OnceCell<SqlitePool>,
}

impl File {
    pub(crate) fn new(
        path: PathBuf,
        given: Option<SqlitePool>,
        group: bool,
        tables: Tables,
        settings: Settings,
    ) -> Result<Self, Error> {
        let path = if given.is_none() { checked(&path)? } else { path };
        let retry = Retry::new(settings.timeout, format!("{path:?}"));
        let this = Self { path, retry, tables, settings, given, group, pool: OnceCell::new() };
        this.check_mode()?;
        Ok(this)
    }

    fn check_mode(&self) -> Result<(), Error> {
        match mode::check(&self.path) {
            // The application chose the mode of a file that also holds its other data.
            Err(error) if self.given.is_some() => {
                tracing::warn!(%error);
                Ok(())
            }
            checked => checked,
        }
    }

    /// Whether there is a database to read from yet.
    pub(crate) fn is_there(&self) -> bool {
        self.given.is_some() || self.path.exists()
    }

    /// The pool, with the tables in its database.
    pub(crate) async fn pool(&self) -> Result<&SqlitePool, Error> {
        self.pool.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> Result<SqlitePool, Error> {
        let pool = match &self.given {
            Some(pool) => pool.clone(),
            None => {
                mode::make(&self.path, self.group)?;
                self.connect()
            }
        };
        // Another process, or the pool, may have made the file since the first check.
        self.check_mode()?;
        let longest = self.settings.longest_lease_of_new();
        let schema = statements::schema(&self.tables, longest.as_millis() as i64);
        // Check first, so that a user who may not create tables can use the existing ones. If a table is missing, as in a file
        // of an older version, it is made now.
        let known = "SELECT 1 FROM {settings} WHERE EXISTS (SELECT 1 FROM {locks}) IS NOT NULL \
            AND EXISTS (SELECT 1 FROM {seen}) IS NOT NULL \
            AND EXISTS (SELECT 1 FROM {abandoned}) IS NOT NULL \
            AND EXISTS (SELECT 1 FROM {queue}) IS NOT NULL";
        let known = self.tables.fill(known, '"');
        let found = sqlx::query_scalar::<_, i64>(AssertSqlSafe(known));
        if let Ok(Some(_)) = found.fetch_optional(&pool).await {
            return Ok(pool);
        }
        // Nothing is made in a file of another version. Only `init` upgrades an older one.
        let version = self.tables.fill(include_str!("../sql/version.sql"), '"');
        let read = || async {
            let version = sqlx::query_scalar::<_, Option<i64>>(AssertSqlSafe(version.clone()));
            version.fetch_optional(&pool).await
        };
        // This fails if there are no settings yet.
        if let Ok(Some(Some(stored))) = self.while_busy(read).await {
            if is_older(stored) {
                return Ok(pool);
            }
            check_version(stored)?;
        }
        self.while_busy(|| async {
            sqlx::raw_sql(AssertSqlSafe(schema.clone())).execute(&pool).await
        })
        .await?;
        Ok(pool)
    }

    fn connect(&self) -> SqlitePool {
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(OWN_WAIT);
        // One connection: SQLite has one writer at a time, and statements of one connection run in
        // the order in which they were sent.
        SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(self.settings.timeout)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_lazy_with(options)
    }

    /// Runs a statement, and repeats it while another client has the database, up to the time limit.
    pub(crate) async fn while_busy<T, Fut>(&self, run: impl Fn() -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, sqlx::Error>>,
    {
        let judge = |error| failure(error, &self.path);
        let tries = || async {
            for _ in 1..TRIES_AT_ONCE {
                match run().await.map_err(judge) {
                    Err(Failure::Busy(_)) => tokio::task::yield_now().await,
                    answer => return answer,
                }
            }
            run().await.map_err(judge)
        };
        self.retry.run(identity, tries).await
    }

    /// Runs a statement that answers no rows. `build` makes it anew for each try, so that its clocks are not stale.
    pub(crate) async fn write(&self, build: impl Fn() -> Statement) -> Result<(), Error> {
        let pool = self.pool().await?;
        let run = || {
            let statement = build();
            async { statement.execute(pool).await }
        };
        self.while_busy(run).await.map(drop)
    }

    /// The one value that a statement without arguments reads.
    pub(crate) async fn value<T>(&self, statement: &SqlStr) -> Result<T, Error>
    where
        T: Send + Unpin,
        (T,): for<'r> FromRow<'r, SqliteRow>,
    {
        let pool = self.pool().await?;
        let read = || async { sqlx::query_scalar::<_, T>(statement.clone()).fetch_one(pool).await };
        self.while_busy(read).await
    }

    pub(crate) async fn close(&self) {
        // A pool from the user stays open.
        if let Some(pool) = self.pool.get().filter(|_| self.given.is_none()) {
            pool.close().await;
        }
    }
}

/// Makes the path absolute, so that it stays the same file when the program changes its folder, and so that SQLite takes no
/// name for one of its URIs. Refuses a path that cannot be a store.
///
/// Nothing here opens the file. A process that closes any descriptor of it loses the locks that its
/// SQLite connections have on it (POSIX record locks).
fn checked(path: &Path) -> Result<PathBuf, Error> {
    let refuse = |kind, why: &str| Err(Error::new(kind, format!("{path:?} {why}")));
    let config = |why: &str| refuse(ErrorKind::Config, why);
    if path.to_str().is_none_or(|text| text.contains(char::is_control)) {
        let why = "is no path for a store; it must be UTF-8 without control characters";
        return refuse(ErrorKind::InvalidInput, why);
    }
    let path = match std::path::absolute(path) {
        Ok(path) => path,
        Err(error) => return config("cannot be made absolute").map_err(|e| e.with_source(error)),
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let exists = match fs::metadata(&path) {
        Ok(found) if found.is_file() => true,
        Ok(found) if found.is_dir() => {
            return config("is a directory; it must be a file in an existing folder");
        }
        Ok(_) => return config("is no regular file; it must be a file in an existing folder"),
        Err(_) => false,
    };
    if !folder.is_dir() {
        let why = format!("cannot be made, since {folder:?} is no folder; the folder must exist");
        return config(&why);
    }
    let may = |path: &Path, how| access(path, how).map_err(std::io::Error::from);
    let mut allowed = may(folder, Access::WRITE_OK | Access::EXEC_OK);
    if exists {
        allowed = may(&path, Access::READ_OK | Access::WRITE_OK).and(allowed);
    }
    match allowed {
        Ok(()) => Ok(path),
        Err(error) => {
            let why = match error.kind() {
                std::io::ErrorKind::ReadOnlyFilesystem => "is on a read-only file system",
                _ => "cannot be opened; the file and its folder must be readable and writable",
            };
            refuse(ErrorKind::Unavailable, why).map_err(|refusal| refusal.with_source(error))
        }
    }
}

/// The kind of network file system that the file is on, if it is a known one.
pub(crate) fn network_file_system(path: &Path) -> Option<&'static str> {
    // The magic numbers of statfs(2).
    const KNOWN: [(u64, &str); 7] = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "SMB2"),
        (0x0102_1997, "9p"),
        (0x00c3_6400, "Ceph"),
        (0x5346_414f, "AFS"),
    ];
    let folder = path.parent().unwrap_or(Path::new("/"));
    let kind = rustix::fs::statfs(folder).ok()?.f_type as u64 & 0xffff_ffff;
    KNOWN.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}
