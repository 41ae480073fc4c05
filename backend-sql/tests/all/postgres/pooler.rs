//! PostgreSQL behind a pooler that gives each transaction another session, and sessions that lose
//! their prepared statements.

use backend_sql::{
    Strategy,
    postgres::{PostgresBuilder, connect},
};
use lock_core::{LockClient, ReleaseOptions};
use servers::{Pgbouncer, Server as _};
use sqlx::{Executor as _, Row as _, postgres::PgPoolOptions};

use crate::support::postgres::{
    BOTH, LEASE, assert_renewed, count, granted, made, request, start, url,
};

/// The pooler does not track prepared statements, and the clients' options do not say that there is
/// a pooler.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_find_out_that_there_is_a_pooler() {
    let server = start().await;
    for sessions in [1, 2, 3] {
        let pooler = Pgbouncer::start(&server, sessions).await.unwrap();
        for strategy in BOTH {
            made(&server, strategy, LEASE).await;
            let url = format!("postgres://postgres@{}/postgres", pooler.address());
            let mut clients = Vec::new();
            for _ in 0..4 {
                let store = connect(&format!("{url}?strategy={strategy}")).await.unwrap();
                assert!(!store.guarantees().push);
                clients.push(LockClient::new(store));
            }
            count(clients, 5).await;
        }
        // A session that still listened would send messages to the client that has it next, whose
        // driver does not expect them.
        let listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
        assert_eq!(server.sql(listening).await.unwrap(), "0", "{sessions} sessions");
        // No client has left a prepared statement that another client could run instead of its own.
        let pool = PgPoolOptions::new().max_connections(1);
        let address = format!("postgres://postgres@{}/postgres", pooler.address());
        let pool = pool.connect(&address).await.unwrap();
        let left = sqlx::raw_sql("SELECT name FROM pg_prepared_statements");
        assert!(left.fetch_all(&pool).await.unwrap().is_empty());
    }
}

/// Another application shares the pooler's sessions. Its transactions find them as it expects, with
/// any options of our client.
#[tokio::test]
async fn other_applications_behind_the_pooler_find_their_sessions_unchanged() {
    let server = start().await;
    made(&server, Strategy::PrimaryKey, LEASE).await;
    for options in ["", "prepare=on", "prepare=on&listen=off", "prepare=off", "listen=off"] {
        // Both use the pooler's only session.
        let pooler = Pgbouncer::start(&server, 1).await.unwrap();
        let address = format!("postgres://postgres@{}/postgres", pooler.address());
        let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
        let theirs = format!("{address}?application_name=theirs");
        let theirs = pool.connect(&theirs).await.unwrap();
        let found = async || {
            let settings = "SELECT pg_backend_pid()::text, string_agg(name || '=' || setting, ' ' ORDER BY name) \
                || (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory') \
                || (SELECT count(*) FROM pg_listening_channels()) FROM pg_settings WHERE source <> 'override'";
            let found = sqlx::raw_sql(settings).fetch_one(&theirs).await.unwrap();
            (found.get::<String, _>(0), found.get::<String, _>(1))
        };
        let before = found().await;
        let store = connect(&format!("{address}?application_name=ours&{options}")).await.unwrap();
        for name in ["one", "two"] {
            let grant = granted(&store, &request(name, LEASE)).await;
            let waiting = request(name, LEASE);
            let waiter = crate::support::enqueue(&store, &waiting).await;
            assert_renewed(&store, &grant).await;
            store.release(&grant, ReleaseOptions::default()).await.unwrap();
            waiter.leave().await.unwrap();
        }
        assert_eq!(found().await, before, "{options}");
    }
}

/// A user of the same pool, or a pooler, may drop prepared statements. The client gets no error.
#[tokio::test]
async fn statements_that_are_gone_are_run_without() {
    let server = start().await;
    made(&server, Strategy::PrimaryKey, LEASE).await;
    for (listens, prepares) in [(true, None), (false, Some(true))] {
        let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
        let pool = pool.connect(&url(&server)).await.unwrap();
        let mut builder = PostgresBuilder::with_pool(pool.clone()).listen(listens);
        if let Some(prepares) = prepares {
            builder = builder.prepare(prepares);
        }
        let store = builder.build().await.unwrap();
        for round in 0..3 {
            // A statement that was prepared for the first name is used for the second.
            for name in ["other", "job"] {
                let grant = granted(&store, &request(name, LEASE)).await;
                if name == "job" {
                    let prepared =
                        "SELECT FROM pg_prepared_statements WHERE statement LIKE '%_locks%'";
                    let prepared = pool.fetch_all(prepared).await.unwrap().len();
                    assert!(prepared > 0 || round > 0, "the fault did not happen");
                    pool.execute("DEALLOCATE ALL").await.unwrap();
                }
                assert_renewed(&store, &grant).await;
                store.release(&grant, ReleaseOptions::default()).await.unwrap();
            }
        }
    }
}
