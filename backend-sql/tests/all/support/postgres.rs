//! What the tests on a PostgreSQL server share.

use std::{future::Future, sync::Arc, time::Duration};

use backend_sql::{Strategy, postgres::connect};
use lock_core::{Backend, Grant, Init, Request, Signal, Waiter};
use servers::{Postgres, PostgresOptions, Server as _, wait::until};
use tokio::time::timeout;

pub(crate) use super::{
    BOTH, LEASE, SECOND, assert_renewed, busy, cause_a_sweep, count, granted,
    request_for as request, used_once,
};

/// With much room for a loaded machine.
pub(crate) const WAIT: Duration = Duration::from_secs(60);

pub(crate) async fn start() -> Postgres {
    Postgres::start(PostgresOptions::new().line("max_connections = 500")).await.unwrap()
}

pub(crate) fn url(server: &Postgres) -> String {
    format!("postgres://postgres@{}/postgres", server.address())
}

pub(crate) async fn open(server: &Postgres, strategy: Strategy) -> Arc<dyn Backend> {
    connect(&format!("{}?strategy={strategy}", url(server))).await.unwrap()
}

/// A fresh store with this longest lease.
pub(crate) async fn made(
    server: &Postgres,
    strategy: Strategy,
    longest: Duration,
) -> Arc<dyn Backend> {
    let drop = "DROP TABLE IF EXISTS leasehold_locks, leasehold_queue, leasehold_marker, leasehold_settings, \
                leasehold_records";
    server.sql(drop).await.unwrap();
    let store = open(server, strategy).await;
    let init = Init::new().with_longest_lease(longest);
    assert_eq!(store.init(&init).await.unwrap().grants_in, Duration::ZERO);
    store
}

/// A client's store; each strategy has tables of its own.
pub(crate) async fn open_apart(server: &Postgres, strategy: Strategy) -> Arc<dyn Backend> {
    let prefix = strategy.to_string().replace('-', "_");
    connect(&format!("{}?strategy={strategy}&table_prefix={prefix}", url(server))).await.unwrap()
}

/// The same, with its tables.
pub(crate) async fn made_apart(server: &Postgres, strategy: Strategy) -> Arc<dyn Backend> {
    let store = open_apart(server, strategy).await;
    store.init(&Init::default()).await.unwrap();
    store
}

/// Asks the server until it gives this answer.
pub(crate) async fn says(server: &Postgres, sql: &str, answer: &str) {
    let ask = || async { Ok((server.sql(sql).await? == answer).then_some(())) };
    until(sql, WAIT, ask).await.unwrap();
}

/// Asks until the answer is yes.
pub(crate) async fn is_so<Fut: Future<Output = bool>>(what: &str, ask: impl Fn() -> Fut) {
    until(what, WAIT, || async { Ok(ask().await.then_some(())) }).await.unwrap();
}

/// How many queue entries wait for `job`.
pub(crate) const WAITING: &str = "SELECT coalesce(max(cardinality(waiters)), 0) + (SELECT count(*) FROM leasehold_queue AS p JOIN leasehold_locks AS l \
     ON l.name = p.name WHERE p.entered > coalesce(l.moved, 0) AND l.far IS NOT NULL) FROM leasehold_locks";

/// Causes a sweep, and waits until it has raised the watermark. The tables begin with this prefix.
pub(crate) async fn sweep(server: &Postgres, store: &Arc<dyn Backend>, prefix: &str) {
    cause_a_sweep(store).await;
    let raised = format!(
        "SELECT raised BETWEEN clock_timestamp() - interval '1 minute' AND clock_timestamp() FROM {prefix}_marker"
    );
    says(server, &raised, "t").await;
}

/// How many sessions wait for a row.
pub(crate) const BLOCKED: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

/// Enters the queue of a name that another client holds.
pub(crate) async fn enqueue(store: &Arc<dyn Backend>, name: &str) -> (Request, Box<dyn Waiter>) {
    let request = request(name, LEASE);
    let waiter = super::enqueue(store, &request).await;
    (request, waiter)
}

/// Waits for a message about a grant, and confirms it.
pub(crate) async fn given(
    store: &Arc<dyn Backend>,
    wanted: &Request,
    waiter: &mut Box<dyn Waiter>,
) -> Grant {
    match timeout(WAIT, waiter.next()).await.unwrap() {
        Signal::Recheck => granted(store, wanted).await,
        other => panic!("not notified: {other:?}"),
    }
}
