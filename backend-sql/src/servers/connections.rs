//! The connections to a server: lends one for each statement, and closes those that only a busy
//! moment needed.

use std::{
    mem::take,
    sync::{Arc, Weak},
};

use lock_core::{Error, ErrorKind, Mutex};
use sqlx::{Database, Pool, pool::PoolConnection};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use crate::{
    error::{Failure, general},
    tunables::{LIFETIME, SHRINK},
};

/// A pool, and the connections of it that are ready for the next statement.
///
/// When a connection returns to the pool, the driver tests it, which costs the server a round trip.
/// So a connection of our own pool returns only after [`SHRINK`] without a statement, or if a call
/// waits for the pool. One in constant use returns after [`LIFETIME`]. The pool then closes it.
#[derive(Debug)]
pub(crate) struct Connections<DB: Database> {
    pub(crate) pool: Pool<DB>,
    /// Whether the pool is the user's, and stays open.
    pub(crate) given: bool,
    ready: Mutex<Ready<DB>>,
    /// In which connections return to the pool.
    runtime: Handle,
}

#[derive(Debug)]
struct Ready<DB: Database> {
    /// In the order in which they were used.
    connections: Vec<Taken<DB>>,
    /// How many calls wait for the pool.
    waiting: usize,
}

/// A connection out of the pool.
#[derive(Debug)]
struct Taken<DB: Database> {
    connection: PoolConnection<DB>,
    /// When the pool lent it.
    since: Instant,
    /// When its last statement ended.
    used: Instant,
}

/// Counts a call that waits for the pool.
struct Waits<'a, DB: Database>(&'a Connections<DB>);

impl<DB: Database> Drop for Waits<'_, DB> {
    fn drop(&mut self) {
        self.0.ready.lock().waiting -= 1;
    }
}

impl<DB: Database> Connections<DB> {
    pub(crate) fn new(pool: Pool<DB>, given: bool) -> Arc<Self> {
        let ready = Mutex::new(Ready { connections: Vec::new(), waiting: 0 });
        let connections = Arc::new(Self { pool, given, ready, runtime: Handle::current() });
        if !given {
            tokio::spawn(shrink(Arc::downgrade(&connections)));
        }
        connections
    }

    pub(crate) async fn lend(
        &self,
        judge: impl FnOnce(sqlx::Error) -> Failure,
    ) -> Result<Lent<'_, DB>, Failure> {
        let waits = {
            let mut ready = self.ready.lock();
            if let Some(taken) = ready.connections.pop() {
                return Ok(Lent { connections: self, taken: Some(taken) });
            }
            ready.waiting += 1;
            Waits(self)
        };
        let connection = self.pool.acquire().await.map_err(|error| match error {
            // Nothing has been sent. (InvalidData means a failed TLS handshake.)
            sqlx::Error::Io(error) if error.kind() != std::io::ErrorKind::InvalidData => {
                let unreachable =
                    Error::new(ErrorKind::Unavailable, "the server cannot be reached");
                Failure::Error(unreachable.with_source(sqlx::Error::Io(error)))
            }
            error => judge(error),
        });
        drop(waits);
        let (connection, now) = (connection?, Instant::now());
        let taken = Taken { connection, since: now, used: now };
        Ok(Lent { connections: self, taken: Some(taken) })
    }

    /// Whether a statement would start no new session.
    #[cfg(feature = "postgres")]
    pub(crate) fn has_idle(&self) -> bool {
        !self.ready.lock().connections.is_empty() || self.pool.num_idle() > 0
    }

    /// Takes the connections that were not used for [`SHRINK`] out of those that are ready.
    fn unused(&self) -> Vec<PoolConnection<DB>> {
        let mut ready = self.ready.lock();
        let unused = ready.connections.partition_point(|it| it.used.elapsed() >= SHRINK);
        ready.connections.drain(..unused).map(|it| it.connection).collect()
    }

    fn take_back(&self, taken: Taken<DB>) {
        let mut ready = self.ready.lock();
        let used = Instant::now();
        let stays = !self.given && used < taken.since + LIFETIME;
        if !stays || self.pool.is_closed() || ready.waiting > 0 {
            drop(ready);
            drop(taken);
        } else {
            ready.connections.push(Taken { used, ..taken });
        }
    }

    /// Closes the pool, if it is our own.
    pub(crate) async fn close(&self) {
        if !self.given {
            self.begin_to_close().await;
        }
    }

    /// From here on, no connection becomes ready. The future waits until all are closed.
    fn begin_to_close(&self) -> impl Future<Output = ()> + '_ {
        let closed = self.pool.close();
        drop(take(&mut self.ready.lock().connections));
        closed
    }
}

impl<DB: Database> Drop for Connections<DB> {
    fn drop(&mut self) {
        if !self.given {
            let _entered = self.runtime.enter();
            drop(self.begin_to_close());
        }
    }
}

/// Closes the connections that a busy moment has opened, except one.
///
/// The driver's own time limit for idle connections cannot be as short. It also closes the last
/// connection and opens another one, so a client that does nothing would start a session of the
/// server again and again.
async fn shrink<DB: Database>(connections: Weak<Connections<DB>>) {
    loop {
        sleep(SHRINK).await;
        // To close a connection may take long. Meanwhile this keeps nothing but the pool.
        let Some((pool, unused)) = connections.upgrade().map(|it| (it.pool.clone(), it.unused()))
        else {
            return;
        };
        for connection in unused {
            if pool.size() > 1 {
                close_one(connection).await;
            }
        }
        while pool.size() > 1 && pool.num_idle() == pool.size() as usize {
            let Some(connection) = pool.try_acquire() else { break };
            close_one(connection).await;
        }
    }
}

async fn close_one<DB: Database>(connection: PoolConnection<DB>) {
    if let Err(error) = connection.close().await {
        tracing::trace!(target: "leasehold", %error, "an idle connection was already broken when it was closed");
    }
}

/// A connection for the length of one statement.
///
/// It can be used again only if the statement has ended. If the statement is given up half-way, by
/// a time limit or because its future was dropped, the connection is closed. Otherwise the next
/// call on the connection would wait for an answer that may never come.
pub(crate) struct Lent<'a, DB: Database> {
    connections: &'a Connections<DB>,
    taken: Option<Taken<DB>>,
}

impl<DB: Database> Lent<'_, DB> {
    pub(crate) fn connection(&mut self) -> Result<&mut DB::Connection, Failure> {
        let connection = self.taken.as_mut().map(|taken| &mut *taken.connection);
        connection.ok_or_else(|| Failure::Error(general(sqlx::Error::PoolClosed)))
    }

    /// After any answer of the server, also a refusal, the connection can be used again. But a
    /// refusal may be the last word of a server that stops. Then the connection returns to the
    /// pool, which tests it.
    pub(crate) fn settle<T>(mut self, answer: &Result<T, sqlx::Error>) {
        match answer {
            Ok(_) => {
                if let Some(taken) = self.taken.take() {
                    self.connections.take_back(taken);
                }
            }
            Err(sqlx::Error::Database(_)) => drop(self.taken.take()),
            Err(_) => {}
        }
    }
}

impl<DB: Database> Drop for Lent<'_, DB> {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            drop(taken.connection.detach());
        }
    }
}

#[cfg(test)]
#[cfg(feature = "mysql")]
mod tests {
    use futures_util::FutureExt as _;
    use servers::{Mariadb, MariadbOptions, Server as _};
    use sqlx::{MySql, mysql::MySqlPoolOptions};

    use super::*;

    async fn one_connection(server: &Mariadb) -> Arc<Connections<MySql>> {
        let pool = MySqlPoolOptions::new().max_connections(1).test_before_acquire(false);
        let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
        Connections::new(pool.connect(&url).await.unwrap(), false)
    }

    async fn lent(connections: &Connections<MySql>) -> Lent<'_, MySql> {
        let lent = connections.lend(|error| Failure::Error(general(error))).await;
        lent.unwrap_or_else(|_| panic!("no connection"))
    }

    #[tokio::test]
    async fn statements_of_a_busy_client_are_followed_by_no_tests() {
        let server = Mariadb::start(MariadbOptions::new()).await.unwrap();
        let connections = one_connection(&server).await;
        let before = server.sql(TESTS).await.unwrap().parse::<u32>().unwrap();
        for _ in 0..100 {
            let mut lent = lent(&connections).await;
            let answer = sqlx::raw_sql("DO 1").execute(lent.connection().ok().unwrap()).await;
            lent.settle(&answer);
        }
        let tests = server.sql(TESTS).await.unwrap().parse::<u32>().unwrap() - before;
        assert!(tests < 50, "{tests} tests of a connection for 100 statements");
    }

    #[tokio::test]
    async fn a_call_that_waits_gets_the_connection_of_another() {
        let server = Mariadb::start(MariadbOptions::new()).await.unwrap();
        let connections = one_connection(&server).await;
        let first = lent(&connections).await;
        let mut second = Box::pin(lent(&connections));
        assert!((&mut second).now_or_never().is_none(), "there is one connection");
        first.settle(&Ok(()));
        assert!(connections.ready.lock().connections.is_empty(), "nobody waits for these");
        second.await;
    }

    #[tokio::test]
    async fn a_connection_in_constant_use_returns_when_it_is_old() {
        let server = Mariadb::start(MariadbOptions::new()).await.unwrap();
        let connections = one_connection(&server).await;
        for (used_for, ready) in [(LIFETIME / 2, 1), (LIFETIME / 2, 0)] {
            let lent = lent(&connections).await;
            tokio::time::pause();
            tokio::time::advance(used_for).await;
            tokio::time::resume();
            lent.settle(&Ok(()));
            assert_eq!(connections.ready.lock().connections.len(), ready);
        }
    }

    /// How often a connection was tested.
    const TESTS: &str = "SELECT variable_value FROM information_schema.global_status \
        WHERE variable_name = 'COM_ADMIN_COMMANDS'";
}
