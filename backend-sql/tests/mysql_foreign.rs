//! A transaction that is not ours has a row of ours, on MariaDB.
#![cfg(feature = "mysql")]
#![allow(clippy::unwrap_used)]

mod foreign;
mod on_mariadb;

use backend_sql::Strategy;
use conformance_tests::kit::Mariadb;
use on_mariadb::{
    BOTH, common, made, no_transaction_is_open, prefix, session, start, waiting_for_rows,
};
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
        let store = made(&server, strategy).await;
        let waits = async || waiting_for_rows(&server, 1).await;
        foreign::what_is_answered(store, async || lock(&server, strategy).await, waits, commit)
            .await;
        no_transaction_is_open(&server).await;
    }
}
