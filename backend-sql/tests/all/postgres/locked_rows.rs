//! A foreign transaction has locked a row of ours, on PostgreSQL.

use backend_sql::{Strategy, postgres::connect};
use lock_core::{Attempt, Env as _, Grant, LossReason, Renewal, SystemEnv};
use servers::{Mode, Postgres, Proxy, Server as _};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tokio::time::timeout;

use crate::support::foreign;
use crate::support::postgres::{
    BLOCKED, BOTH, SECOND, WAIT, assert_renewed, cause_a_sweep, granted, made, request, says,
    start, url, used_once,
};

async fn lock(server: &Postgres) -> PgConnection {
    let mut session = PgConnection::connect(&url(server)).await.unwrap();
    session.execute("BEGIN").await.unwrap();
    let row = format!("SELECT FROM leasehold_locks WHERE name = '{}' FOR UPDATE", foreign::LOCKED);
    let locked = session.execute(AssertSqlSafe(row)).await.unwrap();
    assert_eq!(locked.rows_affected(), 1, "the fault did not happen");
    session
}

async fn commit(mut session: PgConnection) {
    session.execute("COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_another_transaction_has_costs_no_lock_but_its_own() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy, 30 * SECOND).await;
        foreign::one_of_many(store, async || lock(&server).await, commit).await;
        says(&server, BLOCKED, "0").await;
    }
}

#[tokio::test]
async fn a_batch_is_answered_while_another_transaction_has_a_row_of_it() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy, foreign::LONG_LEASE).await;
        let patient = format!("{}?strategy={strategy}&timeout=60s", url(&server));
        let patient = connect(&patient).await.unwrap();
        let waits = async || says(&server, BLOCKED, "1").await;
        let lock = async || lock(&server).await;
        foreign::what_is_answered(store, patient, lock, waits, commit).await;
        says(&server, BLOCKED, "0").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_for_a_row_that_another_transaction_has_cost_no_other_lock() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey, 30 * SECOND).await;
    let waits = "SELECT count(*) > 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let waits = async || says(&server, waits, "t").await;
    let lock = async || lock(&server).await;
    foreign::attempts_cost_no_other_lock(store, lock, waits, commit).await;
}

/// The transactions that keep a sweep from a row, or from the watermark.
const KEPT: [&str; 2] = [
    "SELECT FROM leasehold_locks WHERE name = 'kept' FOR UPDATE",
    "SELECT FROM leasehold_marker FOR UPDATE",
];

/// The sweep leaves out what another transaction has locked. Neither a release nor an attempt waits
/// for it.
#[tokio::test]
async fn a_sweep_waits_for_no_row_and_no_call_for_a_sweep() {
    let server = start().await;
    for kept in KEPT {
        made(&server, Strategy::PrimaryKey, 30 * SECOND).await;
        // With this time limit, a call that waits for the row would never end.
        let store = connect(&format!("{}?timeout=1h", url(&server))).await.unwrap();
        for name in ["kept", "gone"] {
            used_once(&store, &request(name, SECOND)).await;
        }
        // The next sweep deletes both.
        let covered = "UPDATE leasehold_marker SET raised = clock_timestamp() - interval '2 minutes', \
            watermark = (SELECT max(token) FROM leasehold_locks)";
        server.sql(covered).await.unwrap();
        let mut session = PgConnection::connect(&url(&server)).await.unwrap();
        session.execute("BEGIN").await.unwrap();
        let locked = session.execute(kept).await.unwrap();
        assert_eq!(locked.rows_affected(), 1, "the fault did not happen");
        timeout(WAIT, cause_a_sweep(&store)).await.expect("a release waits for the sweep");
        says(&server, "SELECT count(*) FROM leasehold_locks WHERE name = 'gone'", "0").await;
        let free = request("gone", SECOND);
        timeout(WAIT, granted(&store, &free)).await.expect("an attempt waits for the sweep");
        // Waits for the end of the sweep.
        timeout(WAIT, store.close()).await.expect("the sweep waits for the row");
        commit(session).await;
    }
}

/// The first client after a loss distrusts all rows. While it cannot get one of them, it keeps none
/// of the others, so that their holders can renew them.
#[tokio::test]
async fn a_quarantine_that_cannot_begin_keeps_no_row() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey, 30 * SECOND).await;
    let held = granted(&store, &request("held", 30 * SECOND)).await;
    granted(&store, &request(foreign::LOCKED, 30 * SECOND)).await;
    let session = lock(&server).await;
    server.sql("DELETE FROM leasehold_marker").await.unwrap();
    let rolled_back = "SELECT xact_rollback FROM pg_stat_database WHERE datname = 'postgres'";
    let before = server.sql(rolled_back).await.unwrap();
    let other = connect(&format!("{}?timeout=1h", url(&server))).await.unwrap();
    let attempt = tokio::spawn(async move { other.try_acquire(&request("new", SECOND)).await });
    // It waits, or has failed and tries again.
    says(&server, &format!("SELECT ({BLOCKED}) > 0 OR ({rolled_back}) > {before}"), "t").await;
    assert_renewed(&store, &held).await;
    commit(session).await;
    let answer = attempt.await.unwrap().unwrap();
    assert!(matches!(answer, Attempt::Quarantined(_)), "{answer:?}");
}

/// The client checks lost grants one by one. The answers for the others do not wait for all of
/// these checks.
#[tokio::test]
async fn a_batch_of_which_most_is_gone_is_answered_in_time() {
    let server = start().await;
    made(&server, Strategy::PrimaryKey, 30 * SECOND).await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let url = format!("postgres://postgres@{}/postgres?timeout=30s", proxy.address());
    let store = connect(&url).await.unwrap();
    let mut grants = Vec::new();
    for at in 0..100 {
        grants.push(granted(&store, &request(&format!("job {at}"), 30 * SECOND)).await);
    }
    for grant in &grants[1..] {
        store.force_release(&grant.name).await.unwrap();
    }
    // One check is answered before a sixth of the lease is over, and a hundred are not.
    let slow = SECOND / 10;
    proxy.set(Mode::Delay { to_server: slow, to_client: slow }).await.unwrap();
    let all: Vec<&Grant> = grants.iter().collect();
    let answers = store.renew(&all, SystemEnv.now()).await;
    assert!(matches!(answers[0], Renewal::Renewed { .. }), "{:?}", answers[0]);
    assert!(matches!(answers[1], Renewal::Lost(LossReason::Gone)), "{:?}", answers[1]);
    assert!(matches!(answers[99], Renewal::Unknown(_)), "{:?}", answers[99]);
    // The answers that are known by then count. The next batches answer the rest.
    assert_eq!(answers.len(), all.len());
}
