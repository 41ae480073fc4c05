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
use conformance_tests::kit::{Mode, Postgres, PostgresOptions, Proxy, Server as _};
use futures_util::future::join_all;
use lock_core::{
    Attempt, Backend, Enqueued, Env as _, FencingToken, Grant, LockClient, Outcome, Release,
    Renewal, Signal, SystemEnv, Turn,
};
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
        let channel = "SELECT 'leasehold_' || substr(waiters[1], 33, 32) FROM leasehold_locks";
        let channel = server.sql(channel).await.unwrap();
        let mut told = PgListener::connect(&url(&server)).await.unwrap();
        told.listen(&channel).await.unwrap();

        one.release(&held, Release::default()).await.unwrap();
        let message = told.recv().await.unwrap();
        assert!(message.payload().starts_with(&first.owner.to_string()), "{message:?}");
        let grant = given(&mut first_turn).await;
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

async fn given(turn: &mut Box<dyn Turn>) -> Grant {
    match timeout(WAIT, turn.next()).await.unwrap() {
        Signal::Granted(grant) => grant,
        other => panic!("not given: {other:?}"),
    }
}

/// A release gives the lock to the first place in the same statement: for the claim window, until it is
/// confirmed, and for the whole lease from then on.
#[tokio::test]
async fn a_release_gives_the_lock_to_the_first_place() {
    let server = start().await;
    for strategy in BOTH {
        let (one, other) = (made(&server, strategy, LEASE).await, open(&server, strategy).await);
        let held = granted(&one, &request("job", LEASE)).await;
        let (first, mut first_turn) = place(&other, "job").await;
        let (second, mut second_turn) = place(&other, "job").await;
        one.release(&held, Release::default()).await.unwrap();
        let grant = given(&mut first_turn).await;
        assert_eq!((grant.owner, &grant.name), (first.owner, &held.name));
        assert!(grant.token > held.token);
        let claim = grant.claim.unwrap();
        let state = one.inspect(&held.name).await.unwrap().unwrap();
        assert_eq!((state.token, state.waiting), (grant.token, Some(1)));
        let holder = state.holder.unwrap();
        assert_eq!((holder.owner, &holder.label), (first.owner, &first.label));
        assert!(holder.remaining <= claim && claim < LEASE);
        let Attempt::Busy(busy) = one.try_acquire(&request("job", LEASE)).await.unwrap() else {
            panic!("granted twice");
        };
        assert_eq!(busy.token, grant.token);
        let answers = other.renew(&[&grant], SystemEnv.now()).await;
        assert!(matches!(answers[..], [Renewal::Renewed { .. }]), "{answers:?}");
        let state = one.inspect(&held.name).await.unwrap().unwrap();
        assert!(state.holder.unwrap().remaining > claim, "it was to be confirmed");

        // It takes the next request along, which goes behind the second.
        let next = request("job", LEASE);
        let how = Release { keep: None, next: Some(&next) };
        let released = other.release(&grant, how).await.unwrap();
        let Some(Enqueued::Waiting(mut next_turn, _)) = released.next else {
            panic!("not queued: {released:?}");
        };
        let grant = given(&mut second_turn).await;
        assert_eq!(grant.owner, second.owner);
        other.release(&grant, Release::default()).await.unwrap();
        let grant = given(&mut next_turn).await;
        assert_eq!(grant.owner, next.owner);
        // Nobody waits behind it: that the lock was given to it does not matter any more.
        let released = other.release(&grant, Release::default()).await.unwrap();
        assert_eq!(released.outcome, Outcome::Released);
        assert_eq!(server.sql(WAITING).await.unwrap(), "0");
    }
}

/// Whoever stands far from the head tells less often that it is there.
#[tokio::test]
async fn heartbeats_fall_with_the_distance_from_the_head() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey, LEASE).await;
    granted(&store, &request("job", LEASE)).await;
    let mut polls = Vec::new();
    let mut turns = Vec::new();
    for _ in 0..10 {
        match store.enqueue(&request("job", LEASE)).await.unwrap() {
            Enqueued::Waiting(turn, busy) => {
                polls.push(busy.retry_after);
                turns.push(turn);
            }
            other => panic!("no place: {other:?}"),
        }
    }
    assert_eq!(polls[..8], [SECOND / 2; 8]);
    assert_eq!(polls[8..], [SECOND; 2]);
    assert!(store.guarantees().longest_poll >= SECOND);
}

/// A place whose token has a floor is told to ask, since who gives the lock away does not know of it.
#[tokio::test]
async fn a_place_with_a_floor_asks() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy, LEASE).await;
        let held = granted(&store, &request("job", LEASE)).await;
        let mut wanted = request("job", LEASE);
        wanted.floor = FencingToken::new(held.token.get() + 5_000_000).unwrap();
        let Enqueued::Waiting(mut turn, _) = store.enqueue(&wanted).await.unwrap() else {
            panic!("granted twice");
        };
        store.release(&held, Release::default()).await.unwrap();
        let signal = timeout(WAIT, turn.next()).await.unwrap();
        assert!(matches!(signal, Signal::Recheck), "{signal:?}");
        assert!(granted(&store, &wanted).await.token > wanted.floor);
    }
}

/// A round trip for an acquire, one for a release, and one for both where a process hands over to
/// itself; what a handoff between processes costs does not grow with those that wait.
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
        // There may be one sweep among them.
        assert!((200..=202).contains(&pairs), "{strategy}: {pairs} statements");

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
                    client.lock("job").acquire().await.unwrap().release().await.unwrap();
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

/// The server, or the network, gives no answer while it is found out whether messages arrive.
#[tokio::test]
async fn a_connection_for_messages_that_hangs_from_the_start_holds_nobody_up() {
    let server = start().await;
    let holder = made(&server, Strategy::PrimaryKey, LEASE).await;
    let hang = [("SELECT pg_backend_pid()", "SELECT pg_sleep(900)")];
    let proxy = Proxy::altering(server.address(), &hang).await.unwrap();
    let address = format!("postgres://postgres@{}/postgres", proxy.address());
    let store = timeout(WAIT, backend_sql::postgres::connect(&address)).await.unwrap().unwrap();
    assert!(proxy.counters().altered > 0, "the fault did not happen");
    assert!(!store.guarantees().push);
    let held = granted(&holder, &request("job", LEASE)).await;
    let waiter = tokio::spawn(LockClient::new(store).lock("job").acquire());
    says(&server, WAITING, "1").await;
    holder.release(&held, Release::default()).await.unwrap();
    timeout(WAIT, waiter).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

/// Processes that died while they waited delay the next by one turn, however many they are.
#[tokio::test]
async fn many_dead_places_delay_the_next_by_the_stated_bound() {
    let server = start().await;
    let holder = made(&server, Strategy::PrimaryKey, LEASE).await;
    let held = granted(&holder, &request("job", LEASE)).await;
    let dead = "UPDATE leasehold_locks SET \
         waiters = ARRAY(SELECT lpad(to_hex(i), 64, 'd') || '+' FROM generate_series(1, 30) AS i), \
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

async fn clients(server: &Postgres, strategy: Strategy) -> Vec<LockClient> {
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
