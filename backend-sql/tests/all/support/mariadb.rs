//! What the tests of MySQL share: a server, stores of both strategies on it, requests.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use backend_sql::{
    Strategy,
    mysql::{MysqlBuilder, connect},
};
use lock_core::{Backend, Init};
use servers::{Clock, Mariadb, MariadbOptions, Server as _, wait::until};
use sqlx::{Connection as _, MySqlConnection, MySqlPool, mysql::MySqlPoolOptions};

pub(crate) use super::{
    BOTH, LEASE, SECOND, WAIT, assert_renewed, busy, cause_a_sweep, count, drop_acquires, enqueue,
    granted, request, used_once,
};

/// The isolation levels.
pub(crate) const LEVELS: [&str; 4] =
    ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

pub(crate) async fn start() -> Mariadb {
    Mariadb::start(MariadbOptions::new()).await.unwrap()
}

/// A server whose clock stands still, so that no entry counts as dead and no lease ends.
pub(crate) async fn stopped() -> (Clock, Mariadb) {
    let clock = Clock::new().await.unwrap();
    let server = Mariadb::start(MariadbOptions::new().clock(&clock)).await.unwrap();
    clock.stop().unwrap();
    (clock, server)
}

pub(crate) fn url(address: SocketAddr) -> String {
    format!("mysql://root@{address}/test?ssl-mode=disabled")
}

/// A client's store; each strategy has tables of its own.
pub(crate) async fn open(server: &Mariadb, strategy: Strategy) -> Arc<dyn Backend> {
    with_timeout(server, strategy, 5 * SECOND).await
}

/// A client whose calls may take so long.
pub(crate) async fn with_timeout(
    server: &Mariadb,
    strategy: Strategy,
    timeout: Duration,
) -> Arc<dyn Backend> {
    let (url, prefix, timeout) = (url(server.address()), prefix(strategy), timeout.as_secs());
    let url = format!("{url}&strategy={strategy}&table_prefix={prefix}&timeout={timeout}s");
    connect(&url).await.unwrap()
}

pub(crate) fn prefix(strategy: Strategy) -> String {
    strategy.to_string().replace('-', "_")
}

pub(crate) async fn made(server: &Mariadb, strategy: Strategy) -> Arc<dyn Backend> {
    let store = open(server, strategy).await;
    store.init(&Init::default()).await.unwrap();
    store
}

/// The store of [`made`] by one connection of its own pool, which is there and ready.
pub(crate) async fn single(
    address: SocketAddr,
    strategy: Strategy,
    timeout: Duration,
) -> (Arc<dyn Backend>, MySqlPool) {
    let pool = MySqlPoolOptions::new().max_connections(1).test_before_acquire(false);
    let pool = pool.connect(&url(address)).await.unwrap();
    let builder = MysqlBuilder::with_pool(pool.clone()).strategy(strategy);
    let store = builder.table_prefix(prefix(strategy)).timeout(timeout).build().await.unwrap();
    // A name is taken by another statement the second time; both are to be prepared.
    for _ in 0..2 {
        used_once(&store, &request("warm")).await;
    }
    // The pool looks at a connection that is given back before it lies ready.
    let ready = || async { Ok((pool.num_idle() == 1).then_some(())) };
    until("the connection to be idle", WAIT, ready).await.unwrap();
    (store, pool)
}

pub(crate) async fn session(server: &Mariadb) -> MySqlConnection {
    MySqlConnection::connect(&url(server.address())).await.unwrap()
}

/// Sets the isolation level of new sessions.
pub(crate) async fn isolate(server: &Mariadb, level: &str) {
    let level = level.replace(' ', "-");
    server.sql(&format!("SET GLOBAL tx_isolation = '{level}'")).await.unwrap();
}

/// Waits until so many statements wait for a row that another transaction has.
pub(crate) async fn waiting_for_rows(server: &Mariadb, count: usize) {
    transactions(server, "WHERE trx_state = 'LOCK WAIT'", count).await;
}

/// No session of the server is in a transaction.
pub(crate) async fn no_transaction_is_open(server: &Mariadb) {
    transactions(server, "", 0).await;
}

async fn transactions(server: &Mariadb, which: &str, count: usize) {
    let sql = format!("SELECT COUNT(*) FROM information_schema.innodb_trx {which}");
    let reached = async || {
        // What this table shows is only renewed when nobody has read it for 100 ms.
        tokio::time::sleep(Duration::from_millis(120)).await;
        Ok((server.sql(&sql).await? == count.to_string()).then_some(()))
    };
    until(&format!("transactions {which}: {count}"), WAIT, reached).await.unwrap();
}

/// A number that the server counts, such as how many deadlocks it has resolved.
pub(crate) async fn counted(server: &Mariadb, what: &str) -> u64 {
    let status = format!(
        "SELECT variable_value FROM information_schema.global_status WHERE variable_name = '{what}'"
    );
    server.sql(&status).await.unwrap().parse().unwrap()
}
