//! Waiting in PostgreSQL: the queue in the lock's row, and who is told what.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use backend_sql::{Strategy, postgres::PostgresBuilder};
use conformance_tests::kit::{Mode, Proxy, Server as _};
use futures_util::future::join_all;
use lock_core::{Backend, Enqueued, LockClient, Outcome, Release, Signal, Turn};
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::time::timeout;

use self::support::{
    BOTH, SECOND, WAIT, WAITING, granted, is_so, made, open, request, says, start, url,
};

const LEASE: Duration = Duration::from_secs(30);

async fn place(store: &Arc<dyn Backend>, name: &str) -> (lock_core::Request, Box<dyn Turn>) {
    let request = request(name, LEASE);
    match store.enqueue(&request).await.unwrap() {
        Enqueued::Waiting(turn, _) => (request, turn),
        other => panic!("no place: {other:?}"),
    }
}

/// A NOTIFY makes every commit of the server wait for it: it is sent to the first place only, and only
/// if there is one.
#[tokio::test]
async fn only_the_first_who_waits_is_told() {
    let server = start().await;
    for strategy in BOTH {
        let (one, other) = (made(&server, strategy, LEASE).await, open(&server, strategy).await);
        assert!(one.guarantees().push && one.guarantees().fair);
        let held = granted(&one, &request("job", LEASE)).await;
        let (first, mut first_turn) = place(&other, "job").await;
        let (_second, second_turn) = place(&other, "job").await;
        let channel = "SELECT 'leasehold_' || right(waiters[1], 32) FROM leasehold_locks";
        let channel = server.sql(channel).await.unwrap();
        let mut told = PgListener::connect(&url(&server)).await.unwrap();
        told.listen(&channel).await.unwrap();

        one.release(&held, Release::default()).await.unwrap();
        assert_eq!(told.recv().await.unwrap().payload(), first.owner.to_string());
        let signal = timeout(WAIT, first_turn.next()).await.unwrap();
        assert!(matches!(signal, Signal::Recheck), "{signal:?}");
        let grant = granted(&other, &first).await;
        second_turn.leave().await.unwrap();
        other.release(&grant, Release::default()).await.unwrap();
        for _ in 0..5 {
            let grant = granted(&one, &request("job", LEASE)).await;
            one.release(&grant, Release::default()).await.unwrap();
        }
        // Whatever was sent before this came before it.
        let end = format!("SELECT pg_notify('{channel}', 'end')");
        server.sql(&end).await.unwrap();
        assert_eq!(told.recv().await.unwrap().payload(), "end", "{strategy}");
    }
}

/// What is told while the connection is gone is lost: places look for themselves until there is a new
/// one, and ask again when there is.
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
            holder.release(&held, Release::default()).await.unwrap();
            is_so("the client to notice", || async { !store.guarantees().push }).await;
            proxy.set(Mode::Pass).await.unwrap();
        } else {
            is_so("the client to be told again", || async { store.guarantees().push }).await;
            holder.release(&held, Release::default()).await.unwrap();
        }
        let guard = timeout(WAIT, waiter).await.unwrap().unwrap().unwrap();
        guard.release().await.unwrap();
    }
}

/// Processes that died while they waited delay the next by one turn, however many they are.
#[tokio::test]
async fn many_dead_places_delay_the_next_by_the_stated_bound() {
    let server = start().await;
    let holder = made(&server, Strategy::PrimaryKey, LEASE).await;
    let held = granted(&holder, &request("job", LEASE)).await;
    let dead = "UPDATE leasehold_locks SET \
         waiters = ARRAY(SELECT lpad(to_hex(i), 64, 'd') FROM generate_series(1, 30) AS i), \
         heard = array_fill(clock_timestamp(), ARRAY[30])";
    server.sql(dead).await.unwrap();
    let promised = holder.guarantees();
    let client = LockClient::new(open(&server, Strategy::PrimaryKey).await);
    let waiter = tokio::spawn(client.lock("job").acquire());
    let last = "SELECT waiters[cardinality(waiters)] LIKE 'ddd%' FROM leasehold_locks";
    says(&server, last, "f").await;
    holder.release(&held, Release::default()).await.unwrap();
    let bound = promised.dead_place_delay + promised.longest_poll;
    // Thirty turns one after the other would be three times as long as this.
    let guard = timeout(bound + 8 * SECOND, waiter).await.unwrap().unwrap().unwrap();
    guard.release().await.unwrap();
}

/// A place that is given up while it is its turn passes it on.
#[tokio::test]
async fn leaving_ones_turn_tells_the_next() {
    let server = start().await;
    for strategy in BOTH {
        let holder = made(&server, strategy, LEASE).await;
        let (one, other) = (open(&server, strategy).await, open(&server, strategy).await);
        let held = granted(&holder, &request("job", LEASE)).await;
        let (_, mut first) = place(&one, "job").await;
        let (second, mut turn) = place(&other, "job").await;
        holder.release(&held, Release::default()).await.unwrap();
        timeout(WAIT, first.next()).await.unwrap();
        first.leave().await.unwrap();
        timeout(WAIT, turn.next()).await.unwrap();
        let grant = granted(&other, &second).await;
        let released = other.release(&grant, Release::default()).await.unwrap();
        assert_eq!(released.outcome, Outcome::Released);
    }
}

/// A waiter has no connection of the pool, and whoever gives up has given it back.
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
    holder.release(&held, Release::default()).await.unwrap();
    let guard = client.lock("job").acquire().await.unwrap();
    guard.release().await.unwrap();
}

async fn clients(server: &conformance_tests::kit::Postgres, strategy: Strategy) -> Vec<LockClient> {
    // One connection each, besides that for messages.
    join_all((0..64).map(|_| async {
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(WAIT);
        let pool = pool.test_before_acquire(false).connect(&url(server)).await.unwrap();
        let builder = PostgresBuilder::with_pool(pool).strategy(strategy).timeout(WAIT);
        LockClient::new(builder.build().await.unwrap())
    }))
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_clients_on_one_name_and_on_a_name_each() {
    let server = start().await;
    for strategy in BOTH {
        made(&server, strategy, LEASE).await;
        let clients = clients(&server, strategy).await;
        // Not atomic: an overlap would lose some.
        let counter = Arc::new(AtomicU64::new(0));
        let tasks = clients.iter().map(|client| {
            let (client, counter) = (client.clone(), Arc::clone(&counter));
            tokio::spawn(async move {
                let guard = client.lock("job").lease(LEASE).acquire().await.unwrap();
                let value = counter.load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                assert!(guard.is_valid());
                counter.store(value + 1, Ordering::SeqCst);
                guard.release().await.unwrap();
            })
        });
        for task in timeout(WAIT, join_all(tasks.collect::<Vec<_>>())).await.unwrap() {
            task.unwrap();
        }
        assert_eq!(counter.load(Ordering::SeqCst), 64, "{strategy}");

        let guards = join_all(clients.iter().enumerate().map(|(at, client)| async move {
            client.lock(format!("name {at}")).lease(LEASE).acquire().await.unwrap()
        }))
        .await;
        let held = "SELECT count(*) FROM leasehold_locks WHERE owner IS NOT NULL";
        assert_eq!(server.sql(held).await.unwrap(), "64");
        for guard in guards {
            guard.release().await.unwrap();
        }
    }
}

/// The answer to a request for a place was lost, and the request is repeated: it is the same grant, and
/// no place is left behind that would stand in the way.
#[tokio::test]
async fn who_holds_the_lock_already_gets_no_place() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy, LEASE).await;
        let request = request("job", LEASE);
        let first = granted(&store, &request).await;
        for _ in 0..2 {
            match store.enqueue(&request).await.unwrap() {
                Enqueued::Granted(grant) => assert_eq!(grant.token, first.token),
                other => panic!("{strategy}: {other:?}"),
            }
        }
        assert_eq!(server.sql(WAITING).await.unwrap(), "0");
    }
}
