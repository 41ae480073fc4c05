//! The connections to a server: lends one for each statement, and closes those that only a busy
//! moment needed.

use std::{
    io,
    mem::take,
    sync::{Arc, OnceLock, Weak},
};

use lock_core::{Error, ErrorKind, Mutex};
use sqlx::{Connection as _, Database, Pool};
use tokio::{
    runtime::Handle,
    task::AbortHandle,
    time::{Instant, sleep},
};

use super::{
    connect_options::place,
    ready::{AtRest, Ready, Taken, close, test},
};
use crate::{
    error::{Failure, general},
    tunables::{LIFETIME, SHRINK, SILENT_AFTER, SLOW_TO_CONNECT},
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
    /// In which connections return to the pool if they are dropped outside of a runtime.
    runtime: Handle,
    /// What to do when the only connection has had no statement for [`SHRINK`].
    at_rest: OnceLock<AtRest>,
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
        let runtime = Handle::current();
        let (ready, at_rest) = (Mutex::default(), OnceLock::new());
        let connections = Arc::new(Self { pool, given, ready, runtime, at_rest });
        if !given {
            connections.ready.lock().shrinking = Some(connections.spawn_shrink());
        }
        connections
    }

    /// Calls this whenever the only connection of our own pool has had no statement for a while.
    #[cfg(feature = "postgres")]
    pub(crate) fn when_at_rest(&self, call: impl Fn() + Send + Sync + 'static) {
        let _ = self.at_rest.set(AtRest(Box::new(call)));
    }

    fn spawn_shrink(self: &Arc<Self>) -> AbortHandle {
        tokio::spawn(shrink(Arc::downgrade(self))).abort_handle()
    }

    pub(crate) async fn lend(
        self: &Arc<Self>,
        judge: impl FnOnce(sqlx::Error) -> Failure,
    ) -> Result<Lent<'_, DB>, Failure> {
        let waits = {
            let mut ready = self.ready.lock();
            if ready.shrinking.as_ref().is_some_and(AbortHandle::is_finished) {
                ready.shrinking = Some(self.spawn_shrink());
            }
            if let Some(taken) = ready.connections.pop() {
                return Ok(Lent::new(self, taken));
            }
            ready.waiting += 1;
            Waits(self)
        };
        let acquired = tokio::select! {
            biased;
            connection = self.pool.acquire() => connection,
            refused = self.refused() => Err(refused),
        };
        drop(waits);
        let judged = |error| match error {
            // Nothing has been sent. (InvalidData means a failed TLS handshake.)
            sqlx::Error::Io(ref io) if io.kind() != io::ErrorKind::InvalidData => {
                let message = "the server cannot be reached";
                Failure::Error(Error::new(ErrorKind::Unavailable, message).with_source(error))
            }
            error => judge(error),
        };
        let connection = acquired.map_err(|error| match judged(error) {
            Failure::Error(error) => {
                Failure::Error(error.on_server(place(&*self.pool.connect_options())))
            }
            busy @ Failure::Busy(_) => busy,
        })?;
        let now = Instant::now();
        Ok(Lent::new(self, Taken { connection, since: now, used: now }))
    }

    /// Returns once a server refuses connections because none listens there. The driver itself
    /// tries again until its time limit, and then reports only that.
    async fn refused(&self) -> sqlx::Error {
        loop {
            sleep(SLOW_TO_CONNECT).await;
            // Otherwise another call has a connection, and this one may wait for it.
            if self.pool.size() as usize <= self.ready.lock().waiting {
                match DB::Connection::connect_with(&self.pool.connect_options()).await {
                    Err(sqlx::Error::Io(error))
                        if error.kind() == io::ErrorKind::ConnectionRefused =>
                    {
                        return sqlx::Error::Io(error);
                    }
                    Ok(connection) => drop(connection.close().await),
                    Err(_) => {}
                }
            }
        }
    }

    /// Whether a statement would start no new session.
    #[cfg(feature = "postgres")]
    pub(crate) fn has_idle(&self) -> bool {
        !self.ready.lock().connections.is_empty() || self.pool.num_idle() > 0
    }

    fn take_back(&self, taken: Taken<DB>) {
        let mut ready = self.ready.lock();
        let used = Instant::now();
        let stays = !self.given && used < taken.since + LIFETIME;
        if stays && ready.waiting == 0 && !self.pool.is_closed() {
            return ready.connections.push(Taken { used, ..taken });
        }
        // Before `taken` returns to the pool.
        drop(ready);
    }

    /// A statement that began at `since` got no answer. A firewall may have forgotten all
    /// connections, so those that nobody has used since are tested before the next call gets one.
    /// Otherwise each of them would cost a call its time limit.
    fn distrust(&self, since: Instant) {
        let mut unused = self.ready.lock().take_first(|it| it.used < since);
        unused.extend((0..self.pool.num_idle()).map_while(|_| self.pool.try_acquire()));
        for connection in unused {
            tokio::spawn(test(connection));
        }
    }

    /// The runtime for what follows a dropped connection.
    fn runtime(&self) -> Handle {
        Handle::try_current().unwrap_or_else(|_| self.runtime.clone())
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
            let runtime = self.runtime();
            let _entered = runtime.enter();
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
        let Some((pool, unused)) = connections.upgrade().map(|it| {
            let unused = it.ready.lock().take_first(|it| it.used.elapsed() >= SHRINK);
            (it.pool.clone(), unused)
        }) else {
            return;
        };
        for connection in unused {
            if pool.size() > 1 {
                close(connection).await;
            } else {
                test(connection).await;
                if let Some(AtRest(call)) =
                    connections.upgrade().as_ref().and_then(|it| it.at_rest.get())
                {
                    call();
                }
            }
        }
        while pool.size() > 1 && pool.num_idle() == pool.size() as usize {
            let Some(connection) = pool.try_acquire() else { break };
            close(connection).await;
        }
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
    /// When it was lent.
    since: Instant,
}

impl<'a, DB: Database> Lent<'a, DB> {
    fn new(connections: &'a Connections<DB>, taken: Taken<DB>) -> Self {
        Self { connections, taken: Some(taken), since: Instant::now() }
    }

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
        let Some(taken) = self.taken.take() else { return };
        let runtime = self.connections.runtime();
        let _entered = runtime.enter();
        drop(taken.connection.detach());
        if self.since.elapsed() >= SILENT_AFTER {
            self.connections.distrust(self.since);
        }
    }
}

#[cfg(test)]
#[cfg(feature = "mysql")]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use servers::{Mariadb, MariadbOptions, Mode, Proxy, Server as _, wait::until};
    use sqlx::{MySql, mysql::MySqlPoolOptions};
    use tokio::{runtime::Builder, time::timeout};

    use super::*;

    const HANGS: Duration = Duration::from_secs(60);

    async fn one_connection(server: &Mariadb) -> Arc<Connections<MySql>> {
        let pool = MySqlPoolOptions::new().max_connections(1).test_before_acquire(false);
        let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
        Connections::new(pool.connect(&url).await.unwrap(), false)
    }

    async fn lent(connections: &Arc<Connections<MySql>>) -> Lent<'_, MySql> {
        let lent = connections.lend(|error| Failure::Error(general(error))).await;
        lent.unwrap_or_else(|_| panic!("no connection"))
    }

    #[tokio::test]
    async fn statements_of_a_busy_client_are_followed_by_no_tests() {
        let server = Mariadb::start(MariadbOptions::new()).await.unwrap();
        let connections = one_connection(&server).await;
        let tests = async || server.sql(TESTS).await.unwrap().parse::<u32>().unwrap();
        let before = tests().await;
        for _ in 0..100 {
            let mut lent = lent(&connections).await;
            let answer = sqlx::raw_sql("DO 1").execute(lent.connection().ok().unwrap()).await;
            lent.settle(&answer);
        }
        let tests = tests().await - before;
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

    /// All connections of a pool go silent, and new ones work. The statement that meets the first
    /// silent one is the only one that meets any.
    #[tokio::test]
    async fn connections_that_go_silent_cost_one_statement() {
        let server = Mariadb::start(MariadbOptions::new()).await.unwrap();
        for given in [false, true] {
            let proxy = Proxy::start(server.address()).await.unwrap();
            let url = format!("mysql://root@{}/test?ssl-mode=disabled", proxy.address());
            let pool = MySqlPoolOptions::new().max_connections(4).test_before_acquire(false);
            let pool = pool.connect_lazy(&url).unwrap();
            let mut idle = Vec::new();
            for _ in 0..4 {
                idle.push(pool.acquire().await.unwrap());
            }
            for connection in &mut idle {
                connection.return_to_pool().await;
            }
            assert_eq!(pool.num_idle(), 4);
            let connections = Connections::new(pool, given);
            let mut silent = lent(&connections).await;
            proxy.set(Mode::Silent).await.unwrap();
            let ping = silent.connection().ok().unwrap().ping();
            assert!(timeout(2 * SILENT_AFTER, ping).await.is_err(), "it was to be silent");
            drop(silent);
            assert!(proxy.counters().to_server.swallowed > 0, "the fault did not happen");
            assert_eq!(proxy.counters().accepted, 4);
            for _ in 0..4 {
                let mut next = lent(&connections).await;
                assert!(proxy.counters().accepted > 4, "lent a silent connection");
                let ping = next.connection().ok().unwrap().ping();
                timeout(HANGS, ping).await.expect("lent a silent connection").unwrap();
                next.settle(&Ok(()));
            }
        }
    }

    /// A client in a static, whose first runtime ends.
    #[test]
    fn a_pool_shrinks_also_on_another_runtime_than_its_first() {
        let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let (first, second) = (runtime().unwrap(), runtime().unwrap());
        let server = second.block_on(Mariadb::start(MariadbOptions::new())).unwrap();
        let connections = first.block_on(async {
            let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
            Connections::new(MySqlPoolOptions::new().connect_lazy(&url).unwrap(), false)
        });
        drop(first);
        second.block_on(async {
            let all = [lent(&connections).await, lent(&connections).await];
            assert_eq!(connections.pool.size(), 2);
            all.into_iter().for_each(|lent| lent.settle(&Ok(())));
            let shrunk = async || Ok((connections.pool.size() == 1).then_some(()));
            until("one connection to be left", HANGS, shrunk).await.unwrap();
        });
    }

    /// How often a connection was tested.
    const TESTS: &str = "SELECT variable_value FROM information_schema.global_status \
        WHERE variable_name = 'COM_ADMIN_COMMANDS'";
}
