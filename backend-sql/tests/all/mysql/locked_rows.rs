//! Somebody else has locked a row of ours in MySQL. Only who needs that row waits.

use std::{sync::Arc, time::Duration};

use backend_sql::{Strategy, mysql::connect};
use lock_core::{ErrorKind, Mode, OwnerId};
use servers::{Mariadb, MariadbOptions, Server as _};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};

use crate::support::mariadb::{
    BOTH, WAIT, assert_renewed, busy, cause_a_sweep, enqueue, granted, made,
    no_transaction_is_open, open, prefix, request, session, start, url, used_once,
    waiting_for_rows, with_timeout,
};

/// For who waits for a locked row: longer than any other call.
const PATIENT: Duration = Duration::from_secs(60);

/// A transaction of somebody else that has locked what this statement reads.
async fn lock(server: &Mariadb, reads: String) -> MySqlConnection {
    let mut foreign = session(server).await;
    let sql = AssertSqlSafe(format!("BEGIN; {reads} FOR UPDATE"));
    sqlx::raw_sql(sql).execute(&mut foreign).await.unwrap();
    foreign
}

/// Attempts of each kind that wait for a row lock no gap of the queue: others enter the queues of
/// names beside it.
#[tokio::test]
async fn an_attempt_that_waits_for_its_row_keeps_nobody_out_of_other_queues() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let others = with_timeout(&server, strategy, WAIT).await;
        let patient = with_timeout(&server, strategy, PATIENT).await;
        // This client knows the name, and takes it by another statement than one that does not.
        used_once(&patient, &request("locked")).await;
        let neighbours = ["a", "locke", "lockee", "locked a", "m", "z"];
        for name in neighbours {
            granted(&store, &request(name)).await;
        }
        let early = enqueue(&store, &request("m")).await;
        let table = format!("{}_locks", prefix(strategy));
        let foreign = lock(&server, format!("SELECT * FROM {table} WHERE name = 'locked'")).await;
        let mut shared = request("locked");
        shared.mode = Mode::Shared;
        let wanted = [request("locked"), request("locked"), shared];
        let waits = wanted.map(|wanted| {
            let patient = Arc::clone(&patient);
            tokio::spawn(async move { patient.try_acquire(&wanted).await.map(drop) })
        });
        waiting_for_rows(&server, waits.len()).await;
        for name in neighbours {
            let entry = enqueue(&others, &request(name)).await;
            busy(&others, &request(name)).await;
            entry.leave().await.unwrap();
        }
        for new in ["lockecd", "locked too"] {
            used_once(&others, &request(new)).await;
        }
        waiting_for_rows(&server, waits.len()).await;
        foreign.close().await.unwrap();
        for wait in waits {
            wait.await.unwrap().unwrap();
        }
        early.leave().await.unwrap();
    }
}

/// Only sweeps, and an `init` that changes a setting, need the row of the settings for themselves.
#[tokio::test]
async fn locked_settings_stop_no_name() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let table = format!("{}_settings", prefix(strategy));
        let foreign = lock(&server, format!("SELECT * FROM {table}")).await;
        let held = granted(&store, &request("held")).await;
        cause_a_sweep(&store).await;
        let other = open(&server, strategy).await;
        enqueue(&other, &request("held")).await.leave().await.unwrap();
        other.abandon(&request("held")).await.unwrap();
        assert_renewed(&store, &held).await;
        used_once(&other, &request("new")).await;
        foreign.close().await.unwrap();
    }
}

/// A server that logs statements refuses writes under the isolation level of our sessions.
#[tokio::test]
async fn a_server_that_logs_statements_serves_locks() {
    let options = MariadbOptions::new().flag("--log-bin").flag("--binlog-format=STATEMENT");
    let server = Mariadb::start(options).await.unwrap();
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let held = granted(&store, &request("held")).await;
        enqueue(&store, &request("held")).await.leave().await.unwrap();
        assert_renewed(&store, &held).await;
        cause_a_sweep(&store).await;
    }
}

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

/// Somebody has locked one entry of a name. All others of that name enter, leave and are abandoned.
#[tokio::test]
async fn a_locked_entry_keeps_no_other_entry_of_its_name() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        granted(&store, &request("job")).await;
        let (early, locked, late) = (request("job"), request("job"), request("job"));
        let mut leave = Vec::new();
        for waits in [&early, &locked, &late] {
            leave.push(enqueue(&store, waits).await);
        }
        let entry = format!(
            "SELECT * FROM {}_queue WHERE name = 'job' AND owner = '{}'",
            prefix(strategy),
            locked.owner
        );
        let foreign = lock(&server, entry).await;
        let others = with_timeout(&server, strategy, PATIENT).await;
        // The clean-up of the locked one waits. It locks no gap before the entry.
        let patient = with_timeout(&server, strategy, PATIENT).await;
        let mut before = request("job");
        before.owner = OwnerId::from_bits(locked.owner.to_bits() - 1);
        let waits = tokio::spawn(async move { patient.abandon(&locked).await });
        waiting_for_rows(&server, 1).await;
        let work = async {
            leave.pop().unwrap().leave().await.unwrap();
            store.abandon(&early).await.unwrap();
            enqueue(&others, &before).await.leave().await.unwrap();
            others.abandon(&request("job")).await.unwrap();
        };
        tokio::select! {
            () = work => {}
            () = waiting_for_rows(&server, 2) => panic!("{strategy}: it waits for the entry"),
        }
        foreign.close().await.unwrap();
        waits.await.unwrap().unwrap();
    }
}

/// The server does not wait for longer than the client.
#[tokio::test]
async fn a_session_stops_waiting_when_its_client_has_given_up() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey).await;
    used_once(&store, &request("locked")).await;
    let table = prefix(Strategy::PrimaryKey);
    let impatient = format!("{}&timeout=3s&table_prefix={table}", url(server.address()));
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
