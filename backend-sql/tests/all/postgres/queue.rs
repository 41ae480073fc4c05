//! Waiting in PostgreSQL: the queue, and who is notified.

use std::{sync::Arc, time::Duration};

use backend_sql::Strategy;
use lock_core::{Enqueued, FencingToken, LockClient, ReleaseOptions, ReleaseOutcome, Signal};
use servers::{Clock, Postgres, PostgresOptions};
use sqlx::{Connection as _, Executor as _, PgConnection, postgres::PgListener};
use tokio::time::timeout;

use crate::support::{
    self,
    postgres::{
        BLOCKED, BOTH, LEASE, SECOND, WAIT, WAITING, busy, enqueue, given, granted, made, open,
        request, says, start, url, used_once,
    },
    turns::nobody_is_served_twice_before_another,
};

/// Every commit of the server waits for a NOTIFY. So only the first waiter is notified, and only if
/// there is one.
#[tokio::test]
async fn only_the_first_waiter_is_notified() {
    let server = start().await;
    for strategy in BOTH {
        let (one, other) = (made(&server, strategy, LEASE).await, open(&server, strategy).await);
        assert!(one.guarantees().push && one.guarantees().fair);
        let held = granted(&one, &request("job", LEASE)).await;
        let (first, mut first_turn) = enqueue(&other, "job").await;
        let (_second, second_turn) = enqueue(&other, "job").await;
        let channel = "SELECT 'leasehold_' || substr(waiters[1], 33, 32) FROM leasehold_locks";
        let channel = server.sql(channel).await.unwrap();
        let mut listener = PgListener::connect(&url(&server)).await.unwrap();
        listener.listen(&channel).await.unwrap();

        one.release(&held, ReleaseOptions::default()).await.unwrap();
        let message = listener.recv().await.unwrap();
        assert!(message.payload().starts_with(&first.owner.to_string()), "{message:?}");
        let grant = given(&other, &first, &mut first_turn).await;
        second_turn.leave().await.unwrap();
        other.release(&grant, ReleaseOptions::default()).await.unwrap();
        for _ in 0..5 {
            used_once(&one, &request("job", LEASE)).await;
        }
        // Messages arrive in the order in which they were sent.
        let end = format!("SELECT pg_notify('{channel}', 'end')");
        server.sql(&end).await.unwrap();
        assert_eq!(listener.recv().await.unwrap().payload(), "end", "{strategy}");
    }
}

/// A release grants the lock to the first entry in the same statement, first for a short time. Once
/// the owner confirms, it has the whole lease.
#[tokio::test]
async fn a_release_grants_the_lock_to_the_first_entry() {
    let server = start().await;
    for strategy in BOTH {
        let (one, other) = (made(&server, strategy, LEASE).await, open(&server, strategy).await);
        let held = granted(&one, &request("job", LEASE)).await;
        let (first, mut first_turn) = enqueue(&other, "job").await;
        let (second, mut second_turn) = enqueue(&other, "job").await;
        one.release(&held, ReleaseOptions::default()).await.unwrap();
        let state = one.inspect(&held.name).await.unwrap().unwrap();
        assert_eq!(state.waiting, Some(1));
        let holder = state.holder.unwrap();
        assert_eq!((holder.owner, &holder.label), (first.owner, &first.label));
        let turn = one.guarantees().dead_waiter_delay;
        assert!(holder.remaining <= turn && turn < LEASE);
        let grant = given(&other, &first, &mut first_turn).await;
        assert_eq!((grant.owner, &grant.name), (first.owner, &held.name));
        assert!(grant.token == state.token && grant.token > held.token);
        let busy = busy(&one, &request("job", LEASE)).await;
        assert_eq!(busy.token, grant.token);
        let state = one.inspect(&held.name).await.unwrap().unwrap();
        assert!(state.holder.unwrap().remaining > turn, "it was to be confirmed");

        other.release(&grant, ReleaseOptions::default()).await.unwrap();
        let grant = given(&other, &second, &mut second_turn).await;
        // Nobody waits behind it, so a later release need not look for waiters.
        let released = other.release(&grant, ReleaseOptions::default()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
        assert_eq!(server.sql(WAITING).await.unwrap(), "0");
    }
}

/// A waiter that is far from the head sends fewer heartbeats.
#[tokio::test]
async fn heartbeats_fall_with_the_distance_from_the_head() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey, LEASE).await;
    granted(&store, &request("job", LEASE)).await;
    let mut polls = Vec::new();
    let mut waiters = Vec::new();
    for _ in 0..10 {
        match store.enqueue(&request("job", LEASE)).await.unwrap() {
            Enqueued::Waiting(waiter, busy) => {
                polls.push(busy.retry_after);
                waiters.push(waiter);
            }
            other => panic!("no queue entry: {other:?}"),
        }
    }
    assert_eq!(polls[..8], [SECOND / 2; 8]);
    assert_eq!(polls[8..], [SECOND; 2]);
    assert!(store.guarantees().longest_poll >= SECOND);
}

/// A heartbeat counts until the next one is due. The first heartbeat of an entry in the tail once
/// counted for less than the pause until the next. Meanwhile the entry counted as dead, and a
/// refill skipped it.
#[tokio::test]
async fn an_entry_in_the_tail_counts_as_alive_until_its_next_heartbeat() {
    let clock = Clock::new().await.unwrap();
    let options = PostgresOptions::new().clock(&clock);
    let server = Postgres::start(options).await.unwrap();
    clock.stop().unwrap();
    let store = made(&server, Strategy::PrimaryKey, LEASE * 10).await;
    granted(&store, &request("job", LEASE * 10)).await;
    let mut waiters = Vec::new();
    let mut last = request("job", LEASE);
    for _ in 0..100 {
        last = request("job", LEASE);
        waiters.push(support::enqueue(&store, &last).await);
    }
    let alive = format!(
        "SELECT round(extract(epoch FROM alive - clock_timestamp()) * 1000) FROM leasehold_queue WHERE owner = '{}'",
        last.owner
    );
    for _ in 0..3 {
        let busy = busy(&store, &last).await;
        let alive: u64 = server.sql(&alive).await.unwrap().parse().unwrap();
        let alive = Duration::from_millis(alive);
        assert!(busy.retry_after > SECOND * 5, "{:?} until the next", busy.retry_after);
        assert!(alive > busy.retry_after, "{alive:?} of {:?}", busy.retry_after);
    }
}

/// An entry with a floor must ask for the lock itself, since the client that releases does not know
/// the floor.
#[tokio::test]
async fn an_entry_with_a_floor_asks_for_the_lock_itself() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy, LEASE).await;
        let held = granted(&store, &request("job", LEASE)).await;
        let mut wanted = request("job", LEASE);
        wanted.floor = FencingToken::new(held.token.get() + 5_000_000).unwrap();
        let mut waiter = support::enqueue(&store, &wanted).await;
        store.release(&held, ReleaseOptions::default()).await.unwrap();
        let signal = timeout(WAIT, waiter.next()).await.unwrap();
        assert!(matches!(signal, Signal::Recheck), "{signal:?}");
        assert!(granted(&store, &wanted).await.token > wanted.floor);
    }
}

/// Processes that died while they waited delay the next waiter by one turn, however many they are.
#[tokio::test]
async fn many_dead_entries_delay_the_next_by_the_stated_bound() {
    let server = start().await;
    let holder = made(&server, Strategy::PrimaryKey, LEASE).await;
    let held = granted(&holder, &request("job", LEASE)).await;
    let dead = "UPDATE leasehold_locks SET \
         waiters = ARRAY(SELECT lpad(to_hex(i), 64, 'd') || '+' FROM generate_series(1, 16) AS i), \
         alive = array_fill(clock_timestamp() + interval '3 s', ARRAY[16]), far = 46; \
         INSERT INTO leasehold_queue SELECT 'job', lpad(to_hex(i), 32, 'd'), i, lpad(to_hex(i), 64, 'd') || '+', \
         clock_timestamp() + interval '5 s' FROM generate_series(17, 46) AS i";
    server.sql(dead).await.unwrap();
    let promised = holder.guarantees();
    let client = LockClient::new(open(&server, Strategy::PrimaryKey).await);
    let waiter = tokio::spawn(client.lock("job").acquire());
    says(&server, WAITING, "47").await;
    holder.release(&held, ReleaseOptions::default()).await.unwrap();
    let bound = promised.dead_waiter_delay + promised.longest_poll;
    // One turn for each dead entry would take three times as long.
    let guard = timeout(bound + 8 * SECOND, waiter).await.unwrap().unwrap().unwrap();
    guard.release().await.unwrap();
}

/// A waiter that leaves when it is its turn wakes the next one.
#[tokio::test]
async fn a_waiter_that_leaves_on_its_turn_wakes_the_next() {
    let server = start().await;
    for strategy in BOTH {
        let holder = made(&server, strategy, LEASE).await;
        let (one, other) = (open(&server, strategy).await, open(&server, strategy).await);
        let held = granted(&holder, &request("job", LEASE)).await;
        let (_, mut first) = enqueue(&one, "job").await;
        let (second, mut waiter) = enqueue(&other, "job").await;
        holder.release(&held, ReleaseOptions::default()).await.unwrap();
        timeout(WAIT, first.next()).await.unwrap();
        first.leave().await.unwrap();
        timeout(WAIT, waiter.next()).await.unwrap();
        let grant = granted(&other, &second).await;
        let released = other.release(&grant, ReleaseOptions::default()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
    }
}

/// The answer to a request that was granted is lost, and the request is repeated. The answer is the
/// same grant, and no entry stays in the queue.
#[tokio::test]
async fn a_holder_that_asks_again_gets_no_entry() {
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

/// A refused client is in the queue from that moment on, however soon the holder releases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_in_a_loop_are_served_in_turn() {
    let clock = Clock::new().await.unwrap();
    let server = Postgres::start(PostgresOptions::new().clock(&clock)).await.unwrap();
    clock.stop().unwrap();
    for strategy in BOTH {
        for (clients, rounds, hold) in [(2, 100, 0), (4, 20, 5)] {
            made(&server, strategy, LEASE).await;
            let mut stores = Vec::new();
            for _ in 0..clients {
                stores.push(open(&server, strategy).await);
            }
            let hold = Duration::from_millis(hold);
            nobody_is_served_twice_before_another(stores, rounds, hold).await;
        }
    }
}

/// A client that knows that others hold the name does not read its row before it enters the queue.
#[tokio::test]
async fn a_client_that_waits_for_a_busy_name_enters_the_queue_at_once() {
    let options = PostgresOptions::new().line("shared_preload_libraries = 'pg_stat_statements'");
    let server = Postgres::start(options).await.unwrap();
    server.sql("CREATE EXTENSION pg_stat_statements").await.unwrap();
    let reads = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements \
        WHERE query LIKE 'SELECT name, owner%leasehold_locks%'";
    for strategy in BOTH {
        let holder = made(&server, strategy, LEASE).await;
        let held = granted(&holder, &request("job", LEASE)).await;
        let client = LockClient::new(open(&server, strategy).await);
        assert!(client.lock("job").try_acquire().await.unwrap().guard().is_none());
        let before = server.sql(reads).await.unwrap();
        assert_ne!(before, "0", "{strategy}: a refused attempt reads the row");
        let waiting = tokio::spawn(client.lock("job").acquire());
        says(&server, WAITING, "1").await;
        assert_eq!(server.sql(reads).await.unwrap(), before, "{strategy}");
        holder.release(&held, ReleaseOptions::default()).await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        // A lock that has become free is granted by the same request.
        guard.release().await.unwrap();
        client.lock("job").acquire().await.unwrap().release().await.unwrap();
    }
}

/// A client enqueues, or releases, while another client's release, grant or entry is being written.
/// One statement waits for that and decides by the row that it then finds.
#[tokio::test]
async fn an_attempt_and_its_entry_are_one_step() {
    let options = PostgresOptions::new().line("shared_preload_libraries = 'pg_stat_statements'");
    let server = Postgres::start(options).await.unwrap();
    server.sql("CREATE EXTENSION pg_stat_statements").await.unwrap();
    let calls = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements \
        WHERE query LIKE '%leasehold_locks%' AND query LIKE '%$%'";
    let release = "UPDATE leasehold_locks SET owner = NULL";
    let grant =
        "UPDATE leasehold_locks SET owner = repeat('a', 32), expires = now() + interval '1 hour'";
    for strategy in BOTH {
        for (before, during, waits) in [(grant, release, false), (release, grant, true)] {
            let store = made(&server, strategy, LEASE).await;
            let held = granted(&store, &request("job", LEASE)).await;
            // The client knows from an attempt that others hold the name, as it does before it
            // enqueues.
            assert!(store.try_acquire(&request("job", LEASE)).await.unwrap().granted().is_none());
            server.sql(before).await.unwrap();
            let mut other = PgConnection::connect(&url(&server)).await.unwrap();
            other.execute("BEGIN").await.unwrap();
            other.execute(during).await.unwrap();
            let sent: u64 = server.sql(calls).await.unwrap().parse().unwrap();
            let asking = {
                let store = Arc::clone(&store);
                tokio::spawn(async move { store.enqueue(&request("job", LEASE)).await.unwrap() })
            };
            says(&server, BLOCKED, "1").await;
            other.execute("COMMIT").await.unwrap();
            let answer = asking.await.unwrap();
            let sent = server.sql(calls).await.unwrap().parse::<u64>().unwrap() - sent;
            // The plain append does nothing for a lock that was free before, or is now.
            assert_eq!(sent, 2, "{strategy}, {during}: statements");
            match answer {
                Enqueued::Granted(grant) if !waits => assert!(grant.token > held.token),
                Enqueued::Waiting(..) if waits => {
                    assert_eq!(server.sql(WAITING).await.unwrap(), "1");
                }
                other => panic!("{strategy}, {during}: {other:?}"),
            }
        }

        // An entry is being added while the holder releases: the release grants the lock to it.
        let store = made(&server, strategy, LEASE).await;
        let held = granted(&store, &request("job", LEASE)).await;
        let mut other = PgConnection::connect(&url(&server)).await.unwrap();
        let enter = "BEGIN; UPDATE leasehold_locks SET \
            waiters = ARRAY[repeat('b', 64) || '+'], alive = ARRAY[clock_timestamp() + interval '1 minute']";
        other.execute(enter).await.unwrap();
        let releasing = {
            let store = Arc::clone(&store);
            tokio::spawn(
                async move { store.release(&held, ReleaseOptions::default()).await.unwrap() },
            )
        };
        says(&server, BLOCKED, "1").await;
        other.execute("COMMIT").await.unwrap();
        assert_eq!(releasing.await.unwrap().outcome, ReleaseOutcome::Released);
        let owner = "SELECT owner = repeat('b', 32) FROM leasehold_locks";
        assert_eq!(server.sql(owner).await.unwrap(), "t", "{strategy}");
    }
}
