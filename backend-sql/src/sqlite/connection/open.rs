//! Finds or makes the file, and runs statements on it. They wait for other writers without blocking
//! a thread.

use std::{
    convert::identity,
    fs,
    future::Future,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{database::Database, error::failure, mode, opened::Opened, place};
use crate::{
    error::Failure,
    retry::Retry,
    settings::{Settings, check_version},
    sqlite::{
        statements::{self, Statements},
        sys,
    },
    tables::Tables,
    tunables::sqlite::{LAST_CLOSE, OWN_WAIT, TRIES_AT_ONCE},
};
use lock_core::{Error, ErrorKind, Mutex};
use sqlx::{
    AssertSqlSafe, FromRow, SqlStr, Sqlite, SqlitePool,
    query::Query,
    sqlite::{
        SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous,
    },
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
    opened: Mutex<Option<Arc<Opened>>>,
    closed: AtomicBool,
    /// Of those who find it closed, one opens it.
    opening: tokio::sync::Mutex<()>,
}

impl File {
    pub(crate) fn new(
        path: PathBuf,
        given: Option<SqlitePool>,
        group: bool,
        tables: Tables,
        settings: Settings,
    ) -> Result<Self, Error> {
        let path = match given {
            None => checked(&path)?,
            Some(_) => std::path::absolute(&path).unwrap_or(path),
        };
        let retry = Retry::new(settings.timeout, format!("{path:?}"));
        let (opened, closed, opening) = Default::default();
        let this = Self { path, retry, tables, settings, given, group, opened, closed, opening };
        this.check_files()?;
        Ok(this)
    }

    fn check_files(&self) -> Result<(), Error> {
        place::refuse_apart(&self.path)?;
        match mode::check(&self.path) {
            // The application chose the mode of a file that also holds its other data.
            Err(error) if self.given.is_some() => {
                tracing::warn!(target: "leasehold", %error);
                Ok(())
            }
            checked => checked,
        }
    }

    /// Whether there is a database to read from yet.
    pub(crate) fn is_there(&self) -> bool {
        self.given.is_some() || self.path.exists()
    }

    /// The database at the path, with the tables in it. If another file has taken the place of one
    /// that is open, this opens the one at the path: every other client uses that one.
    pub(crate) async fn database(&self) -> Result<Arc<Opened>, Error> {
        let known = || self.opened.lock().clone();
        // After `close`, the next statement says so.
        let is_of_use =
            |opened: &Opened| self.closed.load(Ordering::Relaxed) || opened.is_in_place();
        if let Some(opened) = known().filter(|opened| is_of_use(opened)) {
            return Ok(opened);
        }
        let _one = self.opening.lock().await;
        match known() {
            Some(opened) if is_of_use(&opened) => return Ok(opened),
            Some(left) => self.leave(&left).await?,
            None => {}
        }
        let opened = Arc::new(self.open().await?);
        *self.opened.lock() = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Closes a database that is no longer at the path. A pool of the application's cannot be
    /// opened anew.
    async fn leave(&self, left: &Opened) -> Result<(), Error> {
        let path = &self.path;
        if self.given.is_none() {
            tracing::warn!(
                target: "leasehold",
                ?path,
                "this file, or its -wal or -shm, was deleted, moved or replaced while this client had it open; its locks are \
                 lost, and it opens the file anew"
            );
            *self.opened.lock() = None;
            left.database.leave().await;
            return Ok(());
        }
        // Where the last connection closes, SQLite deletes a file shortly before it has closed it.
        tokio::time::sleep(LAST_CLOSE).await;
        if left.is_in_place() {
            return Ok(());
        }
        let message = format!(
            "{path:?}, or its -wal or -shm, was deleted, moved or replaced while the application's pool had it open; its \
             locks are lost; the application must open its pool and this store anew"
        );
        Err(Error::new(ErrorKind::Config, message))
    }

    /// Whether the application's pool has files open that are no longer at the path.
    pub(crate) fn is_left(&self) -> bool {
        let opened = self.given.is_some().then(|| self.opened.lock().clone()).flatten();
        opened.is_some_and(|opened| !opened.is_in_place())
    }

    async fn open(&self) -> Result<Opened, Error> {
        let database = match &self.given {
            Some(pool) => Database::Given(pool.clone()),
            None => {
                mode::make(&self.path, self.group)?;
                self.own()
            }
        };
        // Another process, or the pool, may have made the file since the first check.
        self.check_files()?;
        self.prepare(&database).await?;
        let opened = Opened::new(database, &self.path);
        if self.given.is_none() && !opened.has_all_open() {
            opened.database.close().await;
            let message = format!(
                "{:?}, or its -wal or -shm, was deleted, moved or replaced while it was opened, or another client in this \
                 process still has the earlier one open",
                self.path
            );
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(opened)
    }

    /// Makes the tables, if there are none.
    async fn prepare(&self, database: &Database) -> Result<(), Error> {
        let longest = self.settings.longest_lease_of_new();
        let schema = statements::schema(&self.tables, longest.as_millis() as i64);
        // Check first, so that a user who may not create tables can use the existing ones. If a
        // table is missing, it is made now.
        let sql = Statements::new(&self.tables);
        let found = sqlx::query_scalar::<_, i64>(sql.are_made);
        let found = async { found.fetch_optional(&mut *database.lend().await?).await };
        if let Ok(Some(_)) = found.await {
            return Ok(());
        }
        // Nothing is made in a file of another version.
        let read = || async {
            let version = sqlx::query_scalar::<_, Option<i64>>(sql.version.clone());
            version.fetch_optional(&mut *database.lend().await?).await
        };
        // This fails if there are no settings yet.
        if let Ok(Some(Some(stored))) = self.while_busy(read).await {
            check_version(stored)?;
        }
        self.while_busy(|| async {
            let schema = sqlx::raw_sql(AssertSqlSafe(schema.clone()));
            schema.execute(&mut *database.lend().await?).await
        })
        .await
        .map(drop)
    }

    fn own(&self) -> Database {
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(OWN_WAIT);
        Database::own(options, self.settings.timeout)
    }

    /// Runs a statement, and repeats it while another client has the database, up to the time
    /// limit.
    pub(crate) async fn while_busy<T, Fut>(&self, run: impl Fn() -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, sqlx::Error>>,
    {
        let once = || async {
            let answer = run().await;
            // The next statement gets a new connection, since the thread of this one has ended.
            if matches!(answer, Err(sqlx::Error::WorkerCrashed)) {
                *self.opened.lock() = None;
            }
            answer.map_err(|error| failure(error, &self.path))
        };
        let tries = || async {
            for _ in 1..TRIES_AT_ONCE {
                match once().await {
                    Err(Failure::Busy(_)) => tokio::task::yield_now().await,
                    answer => return answer,
                }
            }
            once().await
        };
        self.retry.run(identity, tries).await
    }

    /// Runs a statement that answers no rows. `build` makes it anew for each try, so that its
    /// clocks are not stale.
    pub(crate) async fn write(&self, build: impl Fn() -> Statement) -> Result<(), Error> {
        let database = self.database().await?;
        let run = || {
            let statement = build();
            async { statement.execute(&mut *database.lend().await?).await }
        };
        self.while_busy(run).await.map(drop)
    }

    /// The one value that a statement without arguments reads.
    pub(crate) async fn value<T>(&self, statement: &SqlStr) -> Result<T, Error>
    where
        T: Send + Unpin,
        (T,): for<'r> FromRow<'r, SqliteRow>,
    {
        let database = self.database().await?;
        let read = || async {
            let value = sqlx::query_scalar::<_, T>(statement.clone());
            value.fetch_one(&mut *database.lend().await?).await
        };
        self.while_busy(read).await
    }

    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let opened = self.opened.lock().clone();
        if let Some(opened) = opened {
            opened.database.close().await;
        }
    }
}

/// Makes the path absolute, so that it stays the same file when the program changes its folder, and
/// so that SQLite takes no name for one of its URIs. Refuses a path that cannot be a store.
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
    match sys::may_use(folder, exists.then_some(&path)) {
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
