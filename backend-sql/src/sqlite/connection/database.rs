//! What statements run on: one connection of our own, or the user's pool.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use sqlx::{
    ConnectOptions as _, Connection as _, Sqlite, SqliteConnection, SqlitePool,
    pool::PoolConnection, sqlite::SqliteConnectOptions,
};
use tokio::{
    sync::{MappedMutexGuard, Mutex, MutexGuard},
    time::timeout,
};

/// One connection is enough: SQLite has one writer at a time, and statements of one connection run
/// in the order in which they were sent. It is in no pool, since the driver tests each connection
/// that returns to a pool.
#[derive(Debug)]
pub(crate) enum Database {
    Own(Box<Own>),
    /// It stays open.
    Given(SqlitePool),
}

#[derive(Debug)]
pub(crate) struct Own {
    options: SqliteConnectOptions,
    timeout: Duration,
    connection: Mutex<State>,
}

#[derive(Debug)]
enum State {
    NotYet,
    Open(SqliteConnection),
    Closed,
    /// The file is no longer at its path.
    Left,
}

/// The connection for one statement.
pub(crate) enum Lent<'a> {
    Own(MappedMutexGuard<'a, SqliteConnection>),
    Given(PoolConnection<Sqlite>),
}

impl Database {
    pub(crate) fn own(options: SqliteConnectOptions, timeout: Duration) -> Self {
        Self::Own(Box::new(Own { options, timeout, connection: Mutex::new(State::NotYet) }))
    }

    /// Waits for the connection, as long as a pool would.
    pub(crate) async fn lend(&self) -> Result<Lent<'_>, sqlx::Error> {
        match self {
            Self::Own(own) => match timeout(own.timeout, own.lend()).await {
                Ok(lent) => lent.map(Lent::Own),
                Err(_) => Err(sqlx::Error::PoolTimedOut),
            },
            Self::Given(pool) => pool.acquire().await.map(Lent::Given),
        }
    }

    /// Closes a connection of our own, after the statements that were sent before.
    pub(crate) async fn close(&self) {
        self.end(State::Closed).await;
    }

    /// The same, for a file that is no longer at its path. Statements that come later fail as those
    /// of a broken connection do: a repeat may use the file at the path.
    pub(crate) async fn leave(&self) {
        self.end(State::Left).await;
    }

    async fn end(&self, by: State) {
        if let Self::Own(own) = self {
            let state = std::mem::replace(&mut *own.connection.lock().await, by);
            if let State::Open(connection) = state
                && let Err(error) = connection.close().await
            {
                tracing::trace!(target: "leasehold", %error, "the database was not closed");
            }
        }
    }
}

impl Own {
    async fn lend(&self) -> Result<MappedMutexGuard<'_, SqliteConnection>, sqlx::Error> {
        let mut state = self.connection.lock().await;
        if matches!(*state, State::NotYet) {
            *state = State::Open(self.options.connect().await?);
        }
        MutexGuard::try_map(state, |state| match state {
            State::Open(connection) => Some(connection),
            _ => None,
        })
        .map_err(|state| match *state {
            State::Left => sqlx::Error::WorkerCrashed,
            _ => sqlx::Error::PoolClosed,
        })
    }
}

impl Deref for Lent<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        match self {
            Self::Own(connection) => connection,
            Self::Given(connection) => connection,
        }
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        match self {
            Self::Own(connection) => connection,
            Self::Given(connection) => connection,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit also counts while the file is opened.
    const HANGS: Duration = Duration::from_secs(60);

    fn database(folder: &tempfile::TempDir, limit: Duration) -> Database {
        let options = SqliteConnectOptions::new().filename(folder.path().join("locks.db"));
        Database::own(options.create_if_missing(true), limit)
    }

    async fn temporary_tables(database: &Database) -> i64 {
        let count = sqlx::query_scalar("SELECT count(*) FROM sqlite_temp_schema");
        count.fetch_one(&mut *database.lend().await.unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn statements_share_a_connection() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder, HANGS);
        let create = sqlx::query("CREATE TEMPORARY TABLE ours (value)");
        create.execute(&mut *database.lend().await.unwrap()).await.unwrap();
        assert_eq!(temporary_tables(&database).await, 1);
    }

    #[tokio::test]
    async fn a_call_waits_for_the_connection_within_its_time_limit() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder, Duration::from_secs(3));
        let lent = database.lend().await.unwrap();
        assert!(matches!(database.lend().await, Err(sqlx::Error::PoolTimedOut)));
        drop(lent);
        database.lend().await.unwrap();
    }

    #[tokio::test]
    async fn a_closed_database_is_not_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder, HANGS);
        temporary_tables(&database).await;
        database.close().await;
        assert!(matches!(database.lend().await, Err(sqlx::Error::PoolClosed)));
    }
}
