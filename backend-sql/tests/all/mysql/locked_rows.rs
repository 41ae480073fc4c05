//! Somebody else has locked a row of ours in MySQL. Only who needs that row waits.

use backend_sql::{Strategy, mysql::connect};
use lock_core::ErrorKind;
use servers::Server as _;
use sqlx::Connection as _;

use crate::support::mariadb::{
    BOTH, assert_renewed, cause_a_sweep, granted, made, no_transaction_is_open, open, prefix,
    request, session, start, url, used_once, waiting_for_rows,
};

/// Attempts at a locked free row keep nobody else from anything, also not a sweep.
#[tokio::test]
async fn one_locked_row_stops_no_other_name() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let held = granted(&store, &request("held")).await;
        used_once(&store, &request("locked")).await;
        let mut foreign = session(&server).await;
        let table = format!("{}_locks", prefix(strategy));
        let lock = format!("BEGIN; SELECT * FROM {table} WHERE name = 'locked' FOR UPDATE");
        sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut foreign).await.unwrap();
        // An attempt, a clean-up, and one of a client that does not know the name.
        let other = open(&server, strategy).await;
        let (first, second, third) = (request("locked"), request("locked"), request("locked"));
        let waits = [
            tokio::spawn({
                let store = store.clone();
                async move { store.try_acquire(&first).await.map(drop) }
            }),
            tokio::spawn({
                let other = other.clone();
                async move { other.try_acquire(&second).await.map(drop) }
            }),
            tokio::spawn({
                let other = other.clone();
                async move { other.abandon(&third).await }
            }),
        ];
        waiting_for_rows(&server, waits.len()).await;
        cause_a_sweep(&store).await;
        for name in ["new", "newer"] {
            used_once(&store, &request(name)).await;
        }
        assert_renewed(&store, &held).await;
        store.abandon(&request("new")).await.unwrap();
        foreign.close().await.unwrap();
        for wait in waits {
            // On a busy machine its time may be over.
            let _ = wait.await.unwrap();
        }
    }
}

/// The server does not wait for longer than the client.
#[tokio::test]
async fn a_session_stops_waiting_when_its_client_has_given_up() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey).await;
    used_once(&store, &request("locked")).await;
    let table = prefix(Strategy::PrimaryKey);
    let impatient = format!("{}&timeout=1s&table_prefix={table}", url(server.address()));
    let impatient = connect(&impatient).await.unwrap();
    let mut foreign = session(&server).await;
    let lock = format!("SELECT * FROM {table}_locks WHERE name = 'locked' FOR UPDATE");
    let lock = format!("BEGIN; {lock}; UPDATE {table}_locks SET label = 'x' WHERE name = 'locked'");
    sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut foreign).await.unwrap();
    let error = impatient.try_acquire(&request("locked")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{error}");
    waiting_for_rows(&server, 0).await;
    foreign.close().await.unwrap();
    no_transaction_is_open(&server).await;
}
