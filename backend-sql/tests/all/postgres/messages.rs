//! Messages to waiters in PostgreSQL, and how waiters poll when none arrive.

use std::sync::Arc;

use backend_sql::{Strategy, postgres::PostgresBuilder};
use lock_core::{FencingToken, LockClient, ReleaseOptions, Signal};
use servers::{Mode, Proxy, Server as _};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::time::timeout;

use crate::support::postgres::{
    LEASE, SECOND, WAIT, WAITING, enqueue, granted, is_so, made, request, says, start, url,
};

/// Messages are lost while their connection is gone. Waiters poll until there is a new connection,
/// and then ask again.
#[tokio::test]
async fn a_lost_connection_for_messages_costs_time_only() {
    let server = start().await;
    let holder = made(&server, Strategy::PrimaryKey, LEASE).await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let address = format!("postgres://postgres@{}/postgres", proxy.address());
    let store = backend_sql::postgres::connect(&address).await.unwrap();
    assert!(store.guarantees().push);
    let client = LockClient::new(Arc::clone(&store));
    for round in 0..2 {
        let held = granted(&holder, &request("job", LEASE)).await;
        let waiter = tokio::spawn(client.lock("job").acquire());
        says(&server, WAITING, "1").await;
        if round == 0 {
            proxy.set(Mode::Cut).await.unwrap();
            assert!(proxy.counters().cut > 0, "the fault did not happen");
            holder.release(&held, ReleaseOptions::default()).await.unwrap();
            is_so("the client to notice", || async { !store.guarantees().push }).await;
            proxy.set(Mode::Pass).await.unwrap();
        } else {
            is_so("messages to arrive again", || async { store.guarantees().push }).await;
            holder.release(&held, ReleaseOptions::default()).await.unwrap();
        }
        let guard = timeout(WAIT, waiter).await.unwrap().unwrap().unwrap();
        guard.release().await.unwrap();
    }
}

/// The server, or the network, gives no answer while the client finds out whether messages arrive.
#[tokio::test]
async fn a_connection_for_messages_that_hangs_from_the_start_holds_nobody_up() {
    let server = start().await;
    let holder = made(&server, Strategy::PrimaryKey, LEASE).await;
    let hang = [("SELECT pg_catalog.pg_backend_pid()", "SELECT pg_sleep(900)")];
    let proxy = Proxy::altering(server.address(), &hang).await.unwrap();
    let address = format!("postgres://postgres@{}/postgres", proxy.address());
    let store = timeout(WAIT, backend_sql::postgres::connect(&address)).await.unwrap().unwrap();
    assert!(proxy.counters().altered > 0, "the fault did not happen");
    assert!(!store.guarantees().push);
    let held = granted(&holder, &request("job", LEASE)).await;
    let waiter = tokio::spawn(LockClient::new(store).lock("job").acquire());
    says(&server, WAITING, "1").await;
    holder.release(&held, ReleaseOptions::default()).await.unwrap();
    timeout(WAIT, waiter).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

/// The connection for messages hangs, and so does closing it: the client opens another one beside
/// it.
#[tokio::test]
async fn a_connection_for_messages_that_hangs_is_replaced() {
    let server = start().await;
    made(&server, Strategy::PrimaryKey, LEASE).await.close().await;
    let holder = format!("{}?listen=off", url(&server));
    let holder = backend_sql::postgres::connect(&holder).await.unwrap();
    // The one connection for statements is open before the proxy is in use.
    let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    let pool = pool.connect(&url(&server)).await.unwrap();
    let direct = PgConnectOptions::clone(&pool.connect_options());
    let proxy = Proxy::start(server.address()).await.unwrap();
    pool.set_connect_options(direct.clone().port(proxy.address().port()));
    let store = PostgresBuilder::with_pool(pool.clone()).build().await.unwrap();
    assert!(store.guarantees().push && proxy.counters().open == 1, "{:?}", proxy.counters());

    let held = granted(&holder, &request("job", LEASE)).await;
    let waiter = tokio::spawn(LockClient::new(Arc::clone(&store)).lock("job").acquire());
    says(&server, WAITING, "1").await;
    pool.set_connect_options(direct);
    proxy.set(Mode::Hold).await.unwrap();
    // The one that hangs, and the new one.
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    says(&server, listening, "2").await;
    is_so("messages to arrive again", || async { store.guarantees().push }).await;
    assert_eq!(proxy.counters().cut + proxy.counters().reset, 0, "it was to hang");
    holder.release(&held, ReleaseOptions::default()).await.unwrap();
    timeout(WAIT, waiter).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

/// Some session listens in a transaction that stays open for days, so the server keeps all messages
/// since, until it has no room left. Then every transaction that sends one fails.
#[tokio::test]
async fn a_full_queue_of_messages_stops_no_call() {
    let server = start().await;
    made(&server, Strategy::PrimaryKey, LEASE).await.close().await;
    // To fill the real queue takes 8 GB.
    let full = "SET allow_system_table_mods = on; CREATE SEQUENCE public.refused; \
        ALTER FUNCTION pg_catalog.pg_notify(text, text) RENAME TO pg_notify_before; \
        CREATE FUNCTION pg_catalog.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS \
        $$ BEGIN PERFORM nextval('public.refused'); RAISE EXCEPTION USING ERRCODE = '54000', \
        MESSAGE = 'too many notifications in the NOTIFY queue'; END $$";
    server.sql(full).await.unwrap();
    for options in ["prepare=on", "prepare=off", "prepare=on&strategy=optimistic"] {
        let open = async || {
            backend_sql::postgres::connect(&format!("{}?{options}", url(&server))).await.unwrap()
        };
        let (ours, theirs) = (open().await, open().await);
        // A release to a waiter, and one to a waiter that must ask.
        for floor in [FencingToken::ZERO, FencingToken::new(1).unwrap()] {
            let held = granted(&ours, &request("job", LEASE)).await;
            let mut wanted = request("job", LEASE);
            wanted.floor = floor;
            let mut waiter = crate::support::enqueue(&theirs, &wanted).await;
            ours.release(&held, ReleaseOptions::default()).await.unwrap();
            assert!(matches!(timeout(WAIT, waiter.next()).await.unwrap(), Signal::Recheck));
            let grant = granted(&theirs, &wanted).await;
            drop(waiter);
            theirs.release(&grant, ReleaseOptions::default()).await.unwrap();
        }
        // A force, a withdrawal, and the clean-up of an attempt, each with somebody behind.
        let held = granted(&ours, &request("job", LEASE)).await;
        let (_, first) = enqueue(&theirs, "job").await;
        let (wanted, _second) = enqueue(&theirs, "job").await;
        ours.force_release(&held.name).await.unwrap();
        first.leave().await.unwrap();
        theirs.abandon(&wanted).await.unwrap();
    }
    let refused = "SELECT is_called FROM public.refused";
    assert_eq!(server.sql(refused).await.unwrap(), "t", "the fault did not happen");
}

/// A message wakes all sessions that listen. If clients checked by messages whether messages still
/// arrive, they would wake each other all the time.
#[tokio::test]
async fn a_waiter_checks_its_connection_without_a_message() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey, LEASE).await;
    granted(&store, &request("job", LEASE)).await;
    let (_, _turn) = enqueue(&store, "job").await;
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    says(&server, listening, "1").await;
    let channel = "SELECT 'leasehold_' || substr(waiters[1], 33, 32) FROM leasehold_locks";
    let channel = server.sql(channel).await.unwrap();
    let mut spy = PgListener::connect(&url(&server)).await.unwrap();
    spy.listen(&channel).await.unwrap();
    // Something else was asked there since.
    says(&server, listening, "1").await;
    let message = timeout(SECOND, spy.recv()).await;
    assert!(message.is_err(), "{message:?}");
    assert!(store.guarantees().push);
}

/// The view that the documentation gives to a role that only reads.
#[tokio::test]
async fn the_documented_view_hides_the_channels_of_waiters() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey, LEASE).await;
    let held = granted(&store, &request("job", LEASE)).await;
    let (_, _turn) = enqueue(&store, "job").await;
    says(&server, WAITING, "1").await;
    let page = include_str!("../../../../docs/backends/postgres.md");
    let view = page.split("```sql\n").find(|part| part.starts_with("CREATE VIEW")).unwrap();
    let view = view.split("```").next().unwrap();
    server.sql(&format!("CREATE ROLE reader LOGIN; {view}")).await.unwrap();
    let seen = server.sql("SET ROLE reader; SELECT row_to_json(held) FROM held").await.unwrap();
    assert!(seen.contains("\"job\"") && seen.contains(&held.token.to_string()), "{seen}");
    let channel =
        server.sql("SELECT substr(waiters[1], 33, 32) FROM leasehold_locks").await.unwrap();
    assert!(channel.len() == 32 && !seen.contains(&channel), "{seen}");
    server.sql("SET ROLE reader; SELECT waiters FROM leasehold_locks").await.unwrap_err();
}
