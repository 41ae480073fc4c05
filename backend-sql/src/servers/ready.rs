//! Connections out of a pool that are ready for the next statement.

use std::fmt::{self, Debug, Formatter};

use sqlx::{Connection as _, Database, pool::PoolConnection};
use tokio::{
    task::AbortHandle,
    time::{Instant, timeout},
};

use crate::tunables::SILENT_AFTER;

#[derive(Debug)]
pub(super) struct Ready<DB: Database> {
    /// In the order in which they were used.
    pub(super) connections: Vec<Taken<DB>>,
    /// How many calls wait for the pool.
    pub(super) waiting: usize,
    /// The task that closes what only a busy moment needed. It ends with the runtime that started
    /// it.
    pub(super) shrinking: Option<AbortHandle>,
}

impl<DB: Database> Default for Ready<DB> {
    fn default() -> Self {
        Self { connections: Vec::new(), waiting: 0, shrinking: None }
    }
}

impl<DB: Database> Ready<DB> {
    /// Takes out the first ones, up to one that does not pass.
    pub(super) fn take_first(
        &mut self,
        passes: impl Fn(&Taken<DB>) -> bool,
    ) -> Vec<PoolConnection<DB>> {
        let count = self.connections.partition_point(passes);
        self.connections.drain(..count).map(|it| it.connection).collect()
    }
}

/// A connection out of the pool.
#[derive(Debug)]
pub(super) struct Taken<DB: Database> {
    pub(super) connection: PoolConnection<DB>,
    /// When the pool lent it.
    pub(super) since: Instant,
    /// When its last statement ended.
    pub(super) used: Instant,
}

pub(super) async fn close<DB: Database>(connection: PoolConnection<DB>) {
    if let Err(error) = connection.close().await {
        tracing::trace!(target: "leasehold", %error, "an idle connection was already broken when it was closed");
    }
}

/// Returns a connection to its pool if the server answers on it, and drops it otherwise. The
/// driver's own test on return has no time limit: a silent connection would keep its place in the
/// pool until the kernel gives it up, after a quarter of an hour.
pub(super) async fn test<DB: Database>(mut connection: PoolConnection<DB>) {
    if !matches!(timeout(SILENT_AFTER, connection.ping()).await, Ok(Ok(()))) {
        tracing::trace!(target: "leasehold", "a connection without an answer is dropped");
        drop(connection.detach());
    }
}

/// A function without an answer.
#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only PostgreSQL sets one"))]
pub(super) struct AtRest(pub(super) Box<dyn Fn() + Send + Sync>);

impl Debug for AtRest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("AtRest")
    }
}
