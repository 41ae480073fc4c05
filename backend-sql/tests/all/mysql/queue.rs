//! Queue entries in the order of their calls in MySQL, and what waiting costs the server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::support::{
    checks,
    mariadb::{
        BOTH, LEASE, WAIT, busy, cause_a_sweep, counted, enqueue, granted, made, open, prefix,
        request, session, start,
    },
    request_for,
    turns::nobody_is_served_twice_before_another,
};
use lock_core::{Attempt, Mode, ReleaseOptions};
use servers::{Clock, Mariadb, MariadbOptions, Server as _, SlowFlush, wait::until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_in_a_loop_are_served_in_turn() {
    let clock = Clock::new().await.unwrap();
    let server = Mariadb::start(MariadbOptions::new().clock(&clock)).await.unwrap();
    clock.stop().unwrap();
    for strategy in BOTH {
        made(&server, strategy).await;
        for (clients, rounds, hold) in [(2, 30, 5), (4, 10, 5), (16, 4, 5), (16, 4, 0)] {
            let mut stores = Vec::new();
            for _ in 0..clients {
                stores.push(open(&server, strategy).await);
            }
            let hold = Duration::from_millis(hold);
            nobody_is_served_twice_before_another(stores.clone(), rounds, hold).await;
            for store in stores {
                store.close().await;
            }
        }
    }
}

/// The longer a waiter that hears no bell has waited, the less often it checks: a reader has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_waits_for_long_checks_seldom() {
    let server = start().await;
    for strategy in BOTH {
        let (holder, store) = (made(&server, strategy).await, open(&server, strategy).await);
        let held = granted(&holder, &request("job").with_mode(Mode::Shared)).await;
        let mut waiter = enqueue(&store, &request("job")).await;
        let mut checks = async |span: Duration, least: u64| {
            let (began, before) = (Instant::now(), counted(&server, "Com_stmt_execute").await);
            loop {
                tokio::time::timeout(span, waiter.next()).await.unwrap_err();
                let seen = counted(&server, "Com_stmt_execute").await - before;
                if seen >= least {
                    return (seen, began.elapsed());
                }
            }
        };
        // Later ones are at least so far apart.
        let later = |span: Duration| span.as_millis() as u64 / 175;
        // By an eighth of the time that it has waited, from 1 ms on: 77 until that is 250 ms, with
        // their least spread.
        let (seen, span) = checks(Duration::from_millis(2_500), 4).await;
        assert!(seen <= 77 + later(span), "{strategy}: {seen} checks in {span:?}");
        let (seen, span) = checks(Duration::from_secs(2), 1).await;
        assert!(seen <= 2 + later(span), "{strategy}: {seen} checks in {span:?}");
        holder.release(&held, ReleaseOptions::default()).await.unwrap();
        waiter.leave().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_is_served_when_those_before_it_have_gone() {
    let server = start().await;
    for strategy in BOTH {
        checks::the_first_goes(made(&server, strategy).await, open(&server, strategy).await).await;
    }
}

/// To enter or leave the queue and to send a heartbeat is a commit each: a slow disk delays all of
/// them, and changes no order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_served_in_turn_where_commits_are_slow() {
    const CLIENTS: usize = 8;
    let clock = Clock::new().await.unwrap();
    // A MariaDB in /dev/shm maps its own log into memory, and flushes nothing. It flushes the
    // binary log everywhere.
    let options = MariadbOptions::new().flag("--log-bin").flag("--sync-binlog=1").clock(&clock);
    let server = Mariadb::start(options).await.unwrap();
    clock.stop().unwrap();
    for strategy in BOTH {
        made(&server, strategy).await;
        let mut stores = Vec::new();
        for _ in 0..CLIENTS {
            stores.push(open(&server, strategy).await);
        }
        let slow = SlowFlush::start(server.process(), Duration::from_millis(50)).await.unwrap();
        nobody_is_served_twice_before_another(stores.clone(), 2, Duration::from_millis(5)).await;
        // At least that of each grant and of each release.
        let held_up = slow.held_up().unwrap();
        assert!(held_up >= 2 * 2 * CLIENTS, "{held_up} flushes were slow");
        for store in stores {
            store.close().await;
        }
    }
}

/// A grant does not wait until the holder's entry is removed. Its release does: the entry would
/// keep all others away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_waits_until_the_holders_entry_is_removed() {
    let server = start().await;
    for strategy in BOTH {
        let (store, other) = (made(&server, strategy).await, open(&server, strategy).await);
        let held = granted(&store, &request("job")).await;
        let next = request("job");
        let _waiter = store.enqueue(&next).await.unwrap();
        store.release(&held, ReleaseOptions::default()).await.unwrap();
        // Each removal waits as long as this session has a lock of the server.
        let trigger = format!(
            "CREATE TRIGGER slow_{0} BEFORE DELETE ON {0}_queue FOR EACH ROW \
             DO GET_LOCK('removal', 60) + RELEASE_LOCK('removal')",
            prefix(strategy)
        );
        server.sql(&trigger).await.unwrap();
        let mut session = session(&server).await;
        sqlx::raw_sql("DO GET_LOCK('removal', 60)").execute(&mut session).await.unwrap();
        let grant = granted(&store, &next).await;
        let (holder, name) = (Arc::clone(&store), grant.name.clone());
        let release = async move { holder.release(&grant, ReleaseOptions::default()).await };
        let release = tokio::spawn(release);
        let is_free = async || {
            let state = store.inspect(&name).await.unwrap().unwrap();
            Ok(state.holder.is_none().then_some(state.waiting))
        };
        assert_eq!(until("the lock to be free", WAIT, is_free).await.unwrap(), Some(1));
        assert!(!release.is_finished(), "{strategy}");
        sqlx::raw_sql("DO RELEASE_LOCK('removal')").execute(&mut session).await.unwrap();
        release.await.unwrap().unwrap();
        granted(&other, &request("job")).await;
    }
}

/// The longest pause between two heartbeats of an entry far back, if nobody stalls.
const FAR_HEARTBEAT: Duration = Duration::from_millis(2_500);
/// Whether an entry keeps others away after the server's clock went on without a heartbeat.
async fn is_kept(server: &Mariadb, clock: &Clock, name: &str, stall: Duration) -> bool {
    let store = open(server, BOTH[0]).await;
    let held = granted(&store, &request(name)).await;
    let _waiter = store.enqueue(&request(name)).await.unwrap();
    clock.step(stall.as_secs_f64()).unwrap();
    store.release(&held, ReleaseOptions::default()).await.unwrap();
    let answer = store.try_acquire(&request(name)).await.unwrap();
    matches!(answer, Attempt::Busy(_))
}

#[tokio::test]
async fn a_stall_as_long_as_is_promised_keeps_the_order_and_a_longer_one_may_not() {
    let clock = Clock::new().await.unwrap();
    let server = Mariadb::start(MariadbOptions::new().clock(&clock)).await.unwrap();
    let promised = made(&server, BOTH[0]).await.guarantees();
    assert!(promised.fair);
    let promised = FAR_HEARTBEAT + promised.longest_stall;
    clock.stop().unwrap();
    let little = Duration::from_millis(1);
    assert!(is_kept(&server, &clock, "job 1", promised - little).await);
    assert!(!is_kept(&server, &clock, "job 2", promised + little).await);
}

/// One statement sends the heartbeats of all entries of a client: each alone would be a commit.
#[tokio::test]
async fn a_poll_sends_the_heartbeats_of_all_entries_of_its_client() {
    let server = start().await;
    for strategy in BOTH {
        let (holder, store) = (made(&server, strategy).await, open(&server, strategy).await);
        let (mut requests, mut waiters) = (Vec::new(), Vec::new());
        for at in 0..20 {
            let name = format!("job {at}");
            granted(&holder, &request(&name)).await;
            let request = request(&name);
            waiters.push(enqueue(&store, &request).await);
            requests.push(request);
        }
        let table = format!("{}_queue", prefix(strategy));
        let when = format!("SELECT CONCAT(MIN(heard), ' ', MAX(heard)) FROM {table}");
        let heard = async || {
            let found = server.sql(&when).await.unwrap();
            let (first, last) = found.split_once(' ').unwrap();
            (first.parse::<i64>().unwrap(), last.parse::<i64>().unwrap())
        };
        let (_, entered) = heard().await;
        let all_are = async || {
            busy(&store, &requests[0]).await;
            let (first, last) = heard().await;
            Ok((first > entered).then_some((first, last)))
        };
        let (first, last) = until("a heartbeat of all entries", WAIT, all_are).await.unwrap();
        assert_eq!(first, last, "{strategy}: one had a statement of its own");
    }
}

/// A client that is granted the lock has left the queue. Dead entries, and the marks of abandoned
/// owners, are swept away in time.
#[tokio::test]
async fn entries_are_swept_when_nobody_can_come_back_to_them() {
    let server = start().await;
    let strategy = BOTH[0];
    let store = made(&server, strategy).await;
    let prefix = prefix(strategy);
    let entries = async || {
        let owners = format!("SELECT COUNT(*) FROM {prefix}_queue");
        server.sql(&owners).await.unwrap()
    };
    let held = granted(&store, &request("job")).await;
    let next = request("job");
    let _waiter = enqueue(&store, &next).await;
    store.release(&held, ReleaseOptions::default()).await.unwrap();
    let grant = granted(&store, &next).await;
    // The grant does not wait for that.
    let is_empty = async || Ok((entries().await == "0").then_some(()));
    until("the entry to be removed", WAIT, is_empty).await.unwrap();
    drop(enqueue(&store, &request("job")).await);
    store.abandon(&request_for("other", LEASE)).await.unwrap();
    let living = request("job");
    let _living = enqueue(&store, &living).await;
    assert_eq!(entries().await, "3");
    // It asks again and again, and so keeps its entry alive.
    let (asking, asked) = (Arc::clone(&store), living.clone());
    let asks = tokio::spawn(async move {
        loop {
            drop(enqueue(&asking, &asked).await);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let age = format!(
        "UPDATE {prefix}_queue SET heard = CASE WHEN heard < 0 THEN heard + 3700000000 \
         WHEN position = (SELECT * FROM (SELECT MAX(position) FROM {prefix}_queue) AS last) \
         THEN heard ELSE 1 END"
    );
    server.sql(&age).await.unwrap();
    server.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 2").await.unwrap();
    cause_a_sweep(&store).await;
    let is_swept = async || Ok((entries().await == "1").then_some(()));
    until("the entries to be swept", WAIT, is_swept).await.unwrap();
    asks.abort();
    store.release(&grant, ReleaseOptions::default()).await.unwrap();
    granted(&store, &living).await;
}
