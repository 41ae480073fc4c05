//! A transaction that is not ours has a row of ours, on PostgreSQL.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used)]

mod foreign;
mod support;

use conformance_tests::kit::Postgres;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use self::support::{BOTH, SECOND, common, made, says, start, url};

const WAITS: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

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
        says(&server, WAITS, "0").await;
    }
}

#[tokio::test]
async fn a_batch_is_answered_while_another_transaction_has_a_row_of_it() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy, 30 * SECOND).await;
        let waits = async || says(&server, WAITS, "1").await;
        foreign::what_is_answered(store, async || lock(&server).await, waits, commit).await;
        says(&server, WAITS, "0").await;
    }
}
