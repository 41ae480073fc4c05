//! Lends a connection of a pool for one statement, and converts times in statements.

use std::time::Duration;

use lock_core::{Error, ErrorKind};
use sqlx::{Database, Pool, pool::PoolConnection};

use crate::error::{Failure, general};

/// A connection for the length of one statement.
///
/// The connection returns to the pool only when the statement has ended. If the statement is given up half-way, by a time
/// limit or because its future was dropped, the connection is closed. Otherwise the next call on the connection would wait for an
/// answer that may never come.
pub(crate) struct Lent<DB: Database>(Option<PoolConnection<DB>>);

impl<DB: Database> Lent<DB> {
    pub(crate) async fn of(
        pool: &Pool<DB>,
        judge: impl FnOnce(sqlx::Error) -> Failure,
    ) -> Result<Self, Failure> {
        match pool.acquire().await {
            Ok(connection) => Ok(Self(Some(connection))),
            // Nothing has been sent. (InvalidData means a failed TLS handshake.)
            Err(sqlx::Error::Io(error)) if error.kind() != std::io::ErrorKind::InvalidData => {
                let unreachable =
                    Error::new(ErrorKind::Unavailable, "the server cannot be reached");
                Err(Failure::Error(unreachable.with_source(sqlx::Error::Io(error))))
            }
            Err(error) => Err(judge(error)),
        }
    }

    pub(crate) fn connection(&mut self) -> Result<&mut DB::Connection, Failure> {
        let connection = self.0.as_deref_mut();
        connection.ok_or_else(|| Failure::Error(general(sqlx::Error::PoolClosed)))
    }

    /// After any answer of the server, also a refusal, the connection can be used again.
    pub(crate) fn settle<T>(mut self, answer: &Result<T, sqlx::Error>) {
        if matches!(answer, Ok(_) | Err(sqlx::Error::Database(_))) {
            drop(self.0.take());
        }
    }
}

impl<DB: Database> Drop for Lent<DB> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

/// Microseconds, rounded up.
pub fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX)
}

/// A time of a column.
pub fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
