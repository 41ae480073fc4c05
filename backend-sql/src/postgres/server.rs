//! The pool, and statements on it that end in time.

use std::{future::Future, time::Duration};

use lock_core::Error;
use sqlx::{PgPool, SqlStr, postgres::types::PgInterval};

use super::{error::failure, statements::Statements};
use crate::{patience::Patience, tables::Tables};

#[derive(Debug)]
pub(super) struct Server {
    pub(super) pool: PgPool,
    /// Whether the pool is the user's, and stays open.
    given: bool,
    pub(super) sql: Statements,
    pub(super) tables: Tables,
    patience: Patience,
}

impl Server {
    /// Of a pool of our own, at most.
    pub(super) const CONNECTIONS: u32 = 4;

    pub(super) fn new(pool: PgPool, given: bool, tables: Tables, timeout: Duration) -> Self {
        let patience = Patience { timeout, whom: "the server".into() };
        Self { pool, given, sql: Statements::new(&tables), tables, patience }
    }

    /// Runs a statement, again and again while it loses conflicts with others, up to the time limit.
    pub(super) async fn patiently<T, Fut>(&self, run: impl Fn() -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, sqlx::Error>>,
    {
        self.patience.patiently(failure, run).await
    }

    /// The same for a statement that may be carried out twice.
    pub(super) async fn again<T, Fut>(&self, run: impl Fn() -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, sqlx::Error>>,
    {
        self.patience.again(Self::CONNECTIONS, failure, run).await
    }

    /// A statement without arguments that tells one number.
    pub(super) async fn number(&self, statement: &SqlStr) -> Result<Option<i64>, Error> {
        let read = || sqlx::query_scalar::<_, i64>(statement.clone()).fetch_all(&self.pool);
        Ok(self.again(read).await?.pop())
    }

    /// A statement without arguments that changes something.
    pub(super) async fn execute(&self, statement: &SqlStr) -> Result<(), Error> {
        let write = || sqlx::query(statement.clone()).execute(&self.pool);
        self.patiently(write).await.map(drop)
    }

    pub(super) async fn close(&self) {
        if !self.given {
            self.pool.close().await;
        }
    }
}

/// Microseconds, rounded up.
pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX)
}

pub(super) fn interval(span: Duration) -> PgInterval {
    PgInterval { months: 0, days: 0, microseconds: micros(span) }
}

pub(super) fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
