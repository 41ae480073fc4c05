//! How many statements and connections clients of PostgreSQL need.

use std::time::Duration;

use backend_sql::{Strategy, postgres::PostgresBuilder};
use futures_util::future::join_all;
use lock_core::{LockClient, ReleaseOptions};
use servers::{Postgres, PostgresOptions};
use sqlx::{Connection as _, Executor as _, PgConnection, postgres::PgPoolOptions};
use tokio::time::timeout;

use crate::support::postgres::{
    BLOCKED, BOTH, LEASE, WAIT, WAITING, busy, enqueue, granted, made, open, request, says, start,
    url,
};

/// An acquire takes one round trip, and so does a release. A handoff within a process takes one for
/// both. The cost of a handoff between processes does not grow with the number of waiters.
#[tokio::test]
async fn statements_are_counted() {
    let options = PostgresOptions::new().line("shared_preload_libraries = 'pg_stat_statements'");
    let server = Postgres::start(options).await.unwrap();
    server.sql("CREATE EXTENSION pg_stat_statements").await.unwrap();
    let count = async || {
        let sql = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '%leasehold_locks%'";
        server.sql(sql).await.unwrap().parse::<u64>().unwrap()
    };
    for strategy in BOTH {
        let client = LockClient::new(made(&server, strategy, LEASE).await);
        let turn = async |name: &str| {
            client.lock(name).acquire().await.unwrap().release().await.unwrap();
        };
        for _ in 0..5 {
            turn("job").await;
        }
        let before = count().await;
        for _ in 0..100 {
            turn("job").await;
        }
        let pairs = count().await - before;
        // There may be one sweep among them, or the three that prepare a handoff.
        assert!((200..=205).contains(&pairs), "{strategy}: {pairs} statements");

        let before = count().await;
        let tasks = (0..4).map(|_| async {
            for _ in 0..25 {
                turn("job").await;
            }
        });
        join_all(tasks).await;
        let local = count().await - before;
        assert!(local < 160, "{strategy}: {local} statements for 100 turns of one process");

        let mut costs = Vec::new();
        for many in [4, 12] {
            let mut clients = Vec::new();
            for _ in 0..many {
                clients.push(LockClient::new(open(&server, strategy).await));
            }
            let before = count().await;
            let tasks = clients.iter().map(|client| async {
                for _ in 0..20 {
                    let guard = client.lock("job").acquire().await.unwrap();
                    // Long enough for the others to queue.
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    guard.release().await.unwrap();
                }
            });
            join_all(tasks).await;
            let each = (count().await - before) as f64 / (20.0 * f64::from(many));
            println!("{strategy}: {each:.2} statements per turn of {many} processes");
            costs.push(each);
            for client in clients {
                client.close().await;
            }
        }
        assert!(costs[1] < 6.0 && costs[1] < costs[0] * 1.5, "{strategy}: {costs:?}");
    }
}

/// A waiter keeps no connection of the pool, and a waiter that gives up returns its connection.
#[tokio::test]
async fn waiters_keep_no_connection() {
    let server = start().await;
    let holder = made(&server, Strategy::PrimaryKey, LEASE).await;
    let held = granted(&holder, &request("job", LEASE)).await;
    let pool = PgPoolOptions::new().max_connections(1).connect(&url(&server)).await.unwrap();
    let store = PostgresBuilder::with_pool(pool.clone()).build().await.unwrap();
    let client = LockClient::new(store);
    let waiters: Vec<_> =
        (0..5).map(|_| tokio::spawn(client.lock("job").lease(LEASE).acquire())).collect();
    says(&server, WAITING, "1").await;
    for waiter in waiters {
        // One connection: this would wait for one who keeps it.
        drop(timeout(WAIT, pool.acquire()).await.unwrap().unwrap());
        waiter.abort();
        assert!(waiter.await.unwrap_err().is_cancelled());
        drop(timeout(WAIT, pool.acquire()).await.unwrap().unwrap());
    }
    says(&server, WAITING, "0").await;
    holder.release(&held, ReleaseOptions::default()).await.unwrap();
    let guard = client.lock("job").acquire().await.unwrap();
    guard.release().await.unwrap();
}

/// A server parses and plans a statement when a session first runs it. A client that holds or waits
/// has its statements of a handoff run before, for no lock.
#[tokio::test]
async fn a_handoff_runs_no_statement_for_the_first_time() {
    let options = PostgresOptions::new().line("shared_preload_libraries = 'pg_stat_statements'");
    let server = Postgres::start(options).await.unwrap();
    server.sql("CREATE EXTENSION pg_stat_statements").await.unwrap();
    let ready = async |clients: u32| {
        let ready = format!(
            "SELECT count(*) FROM pg_stat_statements WHERE query LIKE 'UPDATE%leasehold_locks%' \
             AND rows = 0 AND calls = {clients}"
        );
        says(&server, &ready, "3").await;
    };
    let holder = made(&server, Strategy::PrimaryKey, LEASE * 10).await;
    let held = granted(&holder, &request("job", LEASE * 10)).await;
    ready(1).await;
    let waiter = LockClient::new(open(&server, Strategy::PrimaryKey).await);
    let waiting = tokio::spawn(waiter.lock("job").acquire());
    ready(2).await;
    holder.release(&held, ReleaseOptions::default()).await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// A session that makes an index lets nobody write to the table. The preparation of a handoff waits
/// for it; the heartbeats, which write to another table, must not, since their entry would die.
#[tokio::test]
async fn no_heartbeat_waits_until_a_handoff_is_prepared() {
    let server = start().await;
    let holder = made(&server, Strategy::PrimaryKey, WAIT * 2).await;
    let _held = granted(&holder, &request("job", WAIT * 2)).await;
    let pool = PgPoolOptions::new().max_connections(4).test_before_acquire(false);
    let waits = format!("{}?application_name=waits", url(&server));
    let builder = PostgresBuilder::with_pool(pool.connect(&waits).await.unwrap());
    let store = builder.listen(false).prepare(true).timeout(WAIT * 2).build().await.unwrap();
    let (wanted, waiter) = enqueue(&store, "job").await;
    let mut index = PgConnection::connect(&url(&server)).await.unwrap();
    index.execute("BEGIN; LOCK TABLE leasehold_locks IN SHARE MODE").await.unwrap();
    for _ in 0..2 {
        timeout(WAIT, busy(&store, &wanted)).await.expect("a heartbeat");
        let blocked = format!("{BLOCKED} AND application_name = 'waits'");
        says(&server, &blocked, "1").await;
    }
    index.execute("ROLLBACK").await.unwrap();
    waiter.leave().await.unwrap();
}
