//! A transaction that is not ours has a row of ours, on MariaDB.

use std::time::Duration;

use crate::support::foreign;
use crate::support::mariadb::{
    BOTH, SECOND, WAIT, made, no_transaction_is_open, open, prefix, session, start,
    waiting_for_rows, with_timeout,
};
use backend_sql::Strategy;
use lock_core::Init;
use servers::{Mariadb, wait::until};
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection};

async fn lock(server: &Mariadb, strategy: Strategy) -> MySqlConnection {
    let mut session = session(server).await;
    session.execute("BEGIN").await.unwrap();
    let row = format!(
        "SELECT * FROM {}_locks WHERE name = '{}' FOR UPDATE",
        prefix(strategy),
        foreign::LOCKED
    );
    let locked = session.fetch_all(AssertSqlSafe(row)).await.unwrap();
    assert_eq!(locked.len(), 1, "the fault did not happen");
    session
}

async fn commit(mut session: MySqlConnection) {
    session.execute("COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_another_transaction_has_costs_no_lock_but_its_own() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        foreign::one_of_many(store, async || lock(&server, strategy).await, commit).await;
        no_transaction_is_open(&server).await;
    }
}

#[tokio::test]
async fn a_batch_is_answered_while_another_transaction_has_a_row_of_it() {
    let server = start().await;
    for strategy in BOTH {
        let store = open(&server, strategy).await;
        let longest = Init::new().with_longest_lease(foreign::LONG_LEASE);
        store.init(&longest).await.unwrap();
        let patient = with_timeout(&server, strategy, 60 * SECOND).await;
        let waits = async || waiting_for_rows(&server, 1).await;
        let lock = async || lock(&server, strategy).await;
        foreign::what_is_answered(store, patient, lock, waits, commit).await;
        no_transaction_is_open(&server).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_for_a_row_that_another_transaction_has_cost_no_other_lock() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey).await;
    let waits = async || {
        let waiting =
            "SELECT COUNT(*) > 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
        let waits = async || {
            // What this table shows is only renewed when nobody has read it for 100 ms.
            tokio::time::sleep(Duration::from_millis(120)).await;
            Ok((server.sql(waiting).await? == "1").then_some(()))
        };
        until("attempts to wait", WAIT, waits).await.unwrap();
    };
    let lock = async || lock(&server, Strategy::PrimaryKey).await;
    foreign::attempts_cost_no_other_lock(store, lock, waits, commit).await;
}
