//! Statements on a server: each takes one connection of the pool, and is repeated if it lost a
//! conflict.

use std::{convert::identity, future::Future, sync::Arc};

use lock_core::Error;
use sqlx::{
    MySql,
    mysql::{MySqlQueryResult, MySqlRow},
};

use super::error::failure;
use crate::{
    error::Failure,
    gate::Gate,
    mysql::statements::{Argument, Statement},
    retry::Retry,
    servers::connections::Connections,
};

/// The connections, and how long a call may take.
#[derive(Debug)]
pub struct Server {
    pub(crate) connections: Arc<Connections<MySql>>,
    pub(crate) retry: Retry,
    /// Which calls may have how many connections.
    pub gate: Gate,
}

impl Server {
    /// How often a statement was tried again that may have been carried out.
    pub fn broken(&self) -> u64 {
        self.retry.broken()
    }

    /// Closes the pool, if it is our own.
    pub async fn close(&self) {
        self.connections.close().await;
    }

    /// Runs a statement that must not be carried out twice unnoticed.
    ///
    /// # Errors
    /// As of a call.
    pub async fn execute(
        &self,
        statement: &Statement,
        arguments: &[Argument<'_>],
    ) -> Result<MySqlQueryResult, Error> {
        self.retry.run(identity, || self.write(statement, arguments)).await
    }

    /// Runs a statement that is safe to run twice. Repeats it if its connection breaks.
    ///
    /// # Errors
    /// As of a call.
    pub async fn execute_repeatable(
        &self,
        statement: &Statement,
        arguments: &[Argument<'_>],
    ) -> Result<MySqlQueryResult, Error> {
        self.run_repeatable(|| self.write(statement, arguments)).await
    }

    /// A statement that only reads.
    ///
    /// # Errors
    /// As of a call.
    pub async fn rows(
        &self,
        statement: &Statement,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<MySqlRow>, Error> {
        self.run_repeatable(|| self.read(statement, arguments)).await
    }

    /// Several statements without arguments, such as those that make the tables.
    ///
    /// # Errors
    /// As of a call.
    pub async fn script(&self, sql: &sqlx::SqlStr) -> Result<(), Error> {
        self.run_repeatable(|| async {
            let mut lent = self.connections.lend(failure).await?;
            let connection = lent.connection()?;
            let answer = sqlx::raw_sql(sql.clone()).execute(connection).await;
            // One that failed half-way has changed its session, which goes.
            if answer.is_ok() {
                lent.settle(&answer);
            }
            answer.map(drop).map_err(failure)
        })
        .await
    }

    async fn run_repeatable<T, Fut>(&self, run: impl Fn() -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, Failure>>,
    {
        let connections = self.connections.pool.options().get_max_connections();
        self.retry.run_repeatable(connections, identity, run).await
    }

    async fn write(
        &self,
        statement: &Statement,
        arguments: &[Argument<'_>],
    ) -> Result<MySqlQueryResult, Failure> {
        let mut lent = self.connections.lend(failure).await?;
        let connection = lent.connection()?;
        let answer = statement.with(arguments).execute(connection).await;
        lent.settle(&answer);
        answer.map_err(failure)
    }

    async fn read(
        &self,
        statement: &Statement,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<MySqlRow>, Failure> {
        let mut lent = self.connections.lend(failure).await?;
        let connection = lent.connection()?;
        let answer = statement.with(arguments).fetch_all(connection).await;
        lent.settle(&answer);
        answer.map_err(failure)
    }
}
