//! Statements on a server: one connection of the pool each, repeated while that is of use.

use std::{convert::identity, future::Future};

use lock_core::{Error, ErrorKind};
use sqlx::{
    MySql, MySqlConnection, MySqlPool,
    mysql::{MySqlQueryResult, MySqlRow},
    pool::PoolConnection,
};

use super::{
    error::failure,
    statements::{Argument, Statement},
};
use crate::{error::Failure, patience::Patience};

/// A pool, and how long a call may take.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) pool: MySqlPool,
    /// Whether the pool is the user's, and stays open.
    pub(super) given: bool,
    pub(super) patience: Patience,
}

impl Server {
    /// Of a pool of our own, at most.
    pub(super) const CONNECTIONS: u32 = 4;

    /// A statement that must not be carried out twice without the caller's knowing.
    pub(super) async fn execute(
        &self,
        statement: &Statement,
        arguments: &[Argument<'_>],
    ) -> Result<MySqlQueryResult, Error> {
        self.patience.patiently(identity, || self.write(statement, arguments)).await
    }

    /// The same for one that may be.
    pub(super) async fn execute_again(
        &self,
        statement: &Statement,
        arguments: &[Argument<'_>],
    ) -> Result<MySqlQueryResult, Error> {
        self.again(|| self.write(statement, arguments)).await
    }

    /// A statement that only reads.
    pub(super) async fn rows(
        &self,
        statement: &Statement,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<MySqlRow>, Error> {
        self.again(|| self.read(statement, arguments)).await
    }

    /// Several statements without arguments, such as those that make the tables.
    pub(super) async fn script(&self, sql: &sqlx::SqlStr) -> Result<(), Error> {
        self.again(|| async {
            let mut lent = self.lend().await?;
            let answer = sqlx::raw_sql(sql.clone()).execute(lent.connection()?).await;
            lent.settle(&answer);
            answer.map(drop).map_err(failure)
        })
        .await
    }

    async fn again<T, Fut>(&self, run: impl Fn() -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, Failure>>,
    {
        let connections = self.pool.options().get_max_connections();
        self.patience.again(connections, identity, run).await
    }

    async fn write(
        &self,
        statement: &Statement,
        arguments: &[Argument<'_>],
    ) -> Result<MySqlQueryResult, Failure> {
        let mut lent = self.lend().await?;
        let answer = statement.with(arguments).execute(lent.connection()?).await;
        lent.settle(&answer);
        answer.map_err(failure)
    }

    async fn read(
        &self,
        statement: &Statement,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<MySqlRow>, Failure> {
        let mut lent = self.lend().await?;
        let answer = statement.with(arguments).fetch_all(lent.connection()?).await;
        lent.settle(&answer);
        answer.map_err(failure)
    }

    async fn lend(&self) -> Result<Lent, Failure> {
        match self.pool.acquire().await {
            Ok(connection) => Ok(Lent(Some(connection))),
            // Nothing has been sent.
            Err(error @ sqlx::Error::Io(_)) => {
                let unreachable = Error::new(ErrorKind::Unavailable, "the server is not reached");
                Err(Failure::Error(unreachable.with_source(error)))
            }
            Err(error) => Err(failure(error)),
        }
    }
}

/// A connection for the length of one statement.
///
/// It goes back to the pool only when the statement has come to its end. One that is given up half-way,
/// by a time limit or since its future was dropped, takes its connection with it: the answer may never
/// come, and whoever had the connection next would wait for it.
struct Lent(Option<PoolConnection<MySql>>);

impl Lent {
    fn connection(&mut self) -> Result<&mut MySqlConnection, Failure> {
        let connection = self.0.as_deref_mut();
        connection.ok_or_else(|| failure(sqlx::Error::PoolClosed))
    }

    /// After an answer of the server's, also a refusal, the connection is as good as before.
    fn settle<T>(mut self, answer: &Result<T, sqlx::Error>) {
        if matches!(answer, Ok(_) | Err(sqlx::Error::Database(_))) {
            drop(self.0.take());
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}
