//! The connections to a server: lends one for each statement, and closes those that only a busy moment needed.

use std::{
    mem::take,
    sync::{Arc, Weak},
};

use lock_core::{Error, ErrorKind, Mutex};
use sqlx::{Database, Pool, pool::PoolConnection};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{sleep, timeout},
};

use crate::{
    error::{Failure, general},
    tunables::SHRINK,
};

/// A pool, and the connections of it that are ready for the next statement.
///
/// When a connection returns to the pool, the driver tests it, which costs the server a round trip. So connections of our own
/// pool return only every [`SHRINK`].
#[derive(Debug)]
pub(crate) struct Connections<DB: Database> {
    pub(crate) pool: Pool<DB>,
    /// Whether the pool is the user's, and stays open.
    pub(crate) given: bool,
    /// One for each connection that the pool may have. Who has one finds a connection ready, or may take one from the pool.
    permits: Semaphore,
    ready: Mutex<Vec<PoolConnection<DB>>>,
}

impl<DB: Database> Connections<DB> {
    pub(crate) fn new(pool: Pool<DB>, given: bool) -> Arc<Self> {
        let permits = Semaphore::new(pool.options().get_max_connections() as usize);
        let connections = Arc::new(Self { pool, given, permits, ready: Mutex::default() });
        if !given {
            tokio::spawn(shrink(Arc::downgrade(&connections)));
        }
        connections
    }

    pub(crate) async fn lend(
        &self,
        judge: impl FnOnce(sqlx::Error) -> Failure,
    ) -> Result<Lent<'_, DB>, Failure> {
        let limit = self.pool.options().get_acquire_timeout();
        // The semaphore is never closed, so the only failure is the timeout.
        let Ok(Ok(permit)) = timeout(limit, self.permits.acquire()).await else {
            return Err(judge(sqlx::Error::PoolTimedOut));
        };
        let ready = self.ready.lock().pop();
        let connection = match ready {
            Some(connection) => connection,
            None => self.pool.acquire().await.map_err(|error| match error {
                // Nothing has been sent. (InvalidData means a failed TLS handshake.)
                sqlx::Error::Io(error) if error.kind() != std::io::ErrorKind::InvalidData => {
                    let unreachable =
                        Error::new(ErrorKind::Unavailable, "the server cannot be reached");
                    Failure::Error(unreachable.with_source(sqlx::Error::Io(error)))
                }
                error => judge(error),
            })?,
        };
        Ok(Lent { connections: self, connection: Some(connection), _permit: permit })
    }

    /// Whether a statement would start no new session.
    #[cfg(feature = "postgres")]
    pub(crate) fn has_idle(&self) -> bool {
        !self.ready.lock().is_empty() || self.pool.num_idle() > 0
    }

    /// Closes the pool, if it is our own.
    pub(crate) async fn close(&self) {
        if self.given {
            return;
        }
        // From here on no connection becomes ready.
        let closed = self.pool.close();
        drop(take(&mut *self.ready.lock()));
        closed.await;
    }

    fn take_back(&self, connection: PoolConnection<DB>) {
        let mut ready = self.ready.lock();
        if self.given || self.pool.is_closed() {
            drop(ready);
            drop(connection);
        } else {
            ready.push(connection);
        }
    }
}

impl<DB: Database> Drop for Connections<DB> {
    fn drop(&mut self) {
        // To return a connection takes a runtime, which may be gone.
        for connection in take(&mut *self.ready.lock()) {
            drop(connection.detach());
        }
    }
}

/// Closes the connections that a busy moment has opened, except one.
///
/// The driver's own time limit for idle connections cannot be as short. It also closes the last connection and opens another
/// one, so a client that does nothing would start a session of the server again and again.
async fn shrink<DB: Database>(connections: Weak<Connections<DB>>) {
    loop {
        sleep(SHRINK).await;
        let Some(connections) = connections.upgrade() else { return };
        let pool = &connections.pool;
        let mut ready = take(&mut *connections.ready.lock());
        while pool.size() > 1 && pool.num_idle() + ready.len() == pool.size() as usize {
            let Some(connection) = ready.pop().or_else(|| pool.try_acquire()) else { break };
            if let Err(error) = connection.close().await {
                tracing::debug!(%error, "an idle connection was already broken when it was closed");
            }
        }
        // The others return to the pool, which tests them and knows how old they are.
        drop(ready);
    }
}

/// A connection for the length of one statement.
///
/// It can be used again only if the statement has ended. If the statement is given up half-way, by a time limit or because its
/// future was dropped, the connection is closed. Otherwise the next call on the connection would wait for an answer that may
/// never come.
pub(crate) struct Lent<'a, DB: Database> {
    connections: &'a Connections<DB>,
    connection: Option<PoolConnection<DB>>,
    _permit: SemaphorePermit<'a>,
}

impl<DB: Database> Lent<'_, DB> {
    pub(crate) fn connection(&mut self) -> Result<&mut DB::Connection, Failure> {
        let connection = self.connection.as_deref_mut();
        connection.ok_or_else(|| Failure::Error(general(sqlx::Error::PoolClosed)))
    }

    /// After any answer of the server, also a refusal, the connection can be used again. But a refusal may be the last word of a
    /// server that stops. Then the connection returns to the pool, which tests it.
    pub(crate) fn settle<T>(mut self, answer: &Result<T, sqlx::Error>) {
        match answer {
            Ok(_) => {
                if let Some(connection) = self.connection.take() {
                    self.connections.take_back(connection);
                }
            }
            Err(sqlx::Error::Database(_)) => drop(self.connection.take()),
            Err(_) => {}
        }
    }
}

impl<DB: Database> Drop for Lent<'_, DB> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection.detach());
        }
    }
}
