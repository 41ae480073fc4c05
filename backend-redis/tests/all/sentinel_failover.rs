//! Failovers by real sentinels. Each test asserts that its fault happened.

use std::time::{Duration, Instant};

use conformance_tests::history::{ALL_RULES, Recorder, Rule, assert_clean, check};
use lock_core::{Attempt, Grant, LockClient, ReleaseOptions, ReleaseOutcome};
use servers::{Redis, RedisOptions, Server as _};
use tokio::runtime::{Builder, Runtime};

use crate::support::{
    connect, granted,
    holders::hold,
    in_step, name, quarantined, replica_of, request,
    sentinels::{deafen_replicas, fail_over, group, url},
};

const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn after_a_failover_that_lost_a_held_lock_there_is_no_second_holder() {
    let options = "longest_lease=6s";
    let mut group = group(RedisOptions::new(), options).await;
    let (recorder, lease) = (Recorder::new(1), Duration::from_secs(6));
    let old = group.master().await.unwrap();
    let first = LockClient::new(connect(&url(&group, options)).await);
    let other = connect(&url(&group, options)).await;
    deafen_replicas(&group, old).await;
    let holder = hold(&recorder, &first, lease).await;
    let token = holder.token;
    // A client that already waits finds the new master by itself.
    let waiting = {
        let (recorder, client) = (recorder.clone(), connect(&url(&group, options)).await);
        tokio::spawn(async move { hold(&recorder, &LockClient::new(client), lease).await })
    };
    servers::wait::until("somebody to wait", SOON, || async {
        let length = group.servers()[old].cli(&["LLEN", "leasehold:{0}:queue:a"]).await?;
        Ok((length == "1").then_some(()))
    })
    .await
    .unwrap();
    let killed = Instant::now();
    let new = fail_over(&mut group, old).await;
    let promoted = killed.elapsed();
    let kept = group.servers()[new].cli(&["EXISTS", "leasehold:{0}:lock:a"]).await.unwrap();
    assert_eq!(kept, "0", "the last write was not lost");

    // A client that asks now learns why there is no grant, and for how long.
    let told = quarantined(&*other).await;
    assert!(told.why.contains("changed its role"), "{told:?}");
    let next = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    println!("promoted after {promoted:?}, first grant after {:?}", killed.elapsed());
    assert!(next.token > token);
    holder.lost().await;
    next.end().await;
    assert_clean(&recorder.history(), ALL_RULES);
}

/// The runtime of the test, and that of a client that does nothing while its runtime stands still:
/// so it asks no server who it is between two calls.
struct Apart {
    test: Runtime,
    client: Runtime,
}

impl Apart {
    fn new() -> Self {
        let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
        Self { test: runtime(), client: runtime() }
    }
}

/// A server loses a grant while a replica is the master, and is master again with the same run id
/// before its client has noticed.
#[test]
fn a_server_that_was_master_twice_grants_nothing_at_once() {
    let (lost, answer) = master_twice_unnoticed(Replica::Known);
    assert!(matches!(answer, Attempt::Quarantined(_)), "{lost:?}, and then {answer:?}");
}

/// The client did its handshake while the replica was disconnected.
#[test]
fn a_server_that_was_master_twice_grants_nothing_though_its_replica_was_away() {
    let (lost, answer) = master_twice_unnoticed(Replica::Away);
    assert!(matches!(answer, Attempt::Quarantined(_)), "{lost:?}, and then {answer:?}");
}

/// What the client knows about the replica.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replica {
    Known,
    Away,
}

/// The grant before and the answer after.
fn master_twice_unnoticed(known: Replica) -> (Grant, Attempt) {
    let Apart { test, client } = Apart::new();
    let options = RedisOptions::new().line("repl-diskless-sync-delay 0");
    let port = |server: &Redis| server.address().port().to_string();
    let (master, replica) = test.block_on(async {
        let master = Redis::start(options.clone()).await.unwrap();
        let replica = replica_of(&master, options).await;
        (master, replica)
    });
    let store = client.block_on(async {
        let store = connect(&crate::support::url(&master)).await;
        crate::support::first_use(&*store).await;
        warm(&*store).await;
        store
    });
    let before = test.block_on(async {
        let before = (identity(&master).await, clients(&master).await);
        // The replica misses the grant, since it cannot reconnect.
        for (setting, value) in [("masteruser", "nobody"), ("masterauth", "wrong")] {
            assert_eq!(replica.cli(&["CONFIG", "SET", setting, value]).await.unwrap(), "OK");
        }
        assert_eq!(master.cli(&["CLIENT", "KILL", "TYPE", "replica"]).await.unwrap(), "1");
        before
    });
    if known == Replica::Away {
        client.block_on(asks_twice(&master));
    }
    let lost = client.block_on(granted(&*store, &request("a", Duration::from_secs(20))));
    test.block_on(async {
        assert_eq!(replica.cli(&["REPLICAOF", "NO", "ONE"]).await.unwrap(), "OK");
        let back = ["REPLICAOF", "127.0.0.1", &port(&replica)];
        assert_eq!(master.cli(&back).await.unwrap(), "OK");
        in_step(&replica, &master).await;
        assert_eq!(master.cli(&["REPLICAOF", "NO", "ONE"]).await.unwrap(), "OK");
    });
    let answer = client.block_on(store.try_acquire(&request("a", Duration::from_secs(20))));
    let after = test.block_on(async { (identity(&master).await, clients(&master).await) });
    assert_eq!(before.0.0, after.0.0, "another run id");
    assert_ne!(before.0.1, after.0.1, "the same replication id");
    assert!(before.1.is_subset(&after.1), "the client noticed, and made a new connection");
    let kept = client.block_on(store.inspect(&name("a"))).unwrap().map(|state| state.token);
    assert_ne!(kept, Some(lost.token), "the grant was not lost");
    (lost, answer.unwrap())
}

/// Waits for two new handshakes of the client. Each sends three INFO.
async fn asks_twice(server: &Redis) {
    let asked = async || {
        let stats = server.cli(&["INFO", "commandstats"]).await.unwrap();
        let line = stats.lines().find(|line| line.starts_with("cmdstat_info:calls=")).unwrap();
        line["cmdstat_info:calls=".len()..].split(',').next().unwrap().parse::<u64>().unwrap()
    };
    let mut before = asked().await;
    for _ in 0..2 {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let now = asked().await;
            // One of them is from this test.
            let theirs = now - before - 1;
            before = now;
            if theirs >= 3 {
                break;
            }
        }
    }
}

/// A master that becomes a replica keeps its clients and refuses their writes.
#[test]
fn a_master_that_turned_read_only_is_left_and_grants_nothing_when_it_is_back() {
    let Apart { test, client } = Apart::new();
    let (master, other) = test.block_on(async {
        (crate::support::server().await, Redis::start(RedisOptions::new()).await.unwrap())
    });
    let (store, held) = client.block_on(async {
        let store = connect(&crate::support::url(&master)).await;
        let held = granted(&*store, &request("a", SOON / 3)).await;
        (store, held)
    });
    test.block_on(async {
        let follow = ["REPLICAOF", "127.0.0.1", &other.address().port().to_string()];
        // The other server refuses its replication, so that it keeps its data.
        assert_eq!(other.cli(&["CONFIG", "SET", "requirepass", "secret"]).await.unwrap(), "OK");
        assert_eq!(master.cli(&follow).await.unwrap(), "OK");
    });
    client.block_on(async {
        let error = store.release(&held, ReleaseOptions::default()).await.unwrap_err();
        assert!(error.is_retryable() && !error.is_ambiguous(), "{error}");
        let refused = master.cli(&["INFO", "errorstats"]).await.unwrap();
        assert!(refused.contains("errorstat_READONLY"), "the client noticed before it wrote");
        // The client dropped the connection, and makes no new one to a replica.
        let error = store.try_acquire(&request("b", SOON / 3)).await.unwrap_err();
        assert!(error.to_string().contains("is a slave; must be a master"), "{error}");
        assert_eq!(master.cli(&["REPLICAOF", "NO", "ONE"]).await.unwrap(), "OK");
        let told = quarantined(&*store).await;
        assert!(told.why.contains("changed its role"), "{told:?}");
        let released = store.release(&held, ReleaseOptions::default()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
    });
}

/// Loads the scripts.
async fn warm(store: &dyn lock_core::Backend) {
    let grant = granted(store, &request("warm", SOON / 2)).await;
    store.release(&grant, ReleaseOptions::default()).await.unwrap();
}

async fn identity(server: &Redis) -> (String, String) {
    (server.info("run_id").await.unwrap(), server.info("master_replid").await.unwrap())
}

/// The clients that are connected, without the one that asks and without servers.
async fn clients(server: &Redis) -> std::collections::BTreeSet<String> {
    let list = server.cli(&["CLIENT", "LIST", "TYPE", "normal"]).await.unwrap();
    let ours = list.lines().filter(|line| !line.contains("cmd=client"));
    ours.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// A master counts a replica that hangs as good for six more seconds, while another replica is
/// promoted at once. Returns the violations that the holders on both servers saw.
async fn lagging(url_options: &str) -> Vec<conformance_tests::history::Violation> {
    let options = RedisOptions::new()
        .line("repl-diskless-sync-delay 0")
        .line("min-replicas-to-write 1")
        .line("min-replicas-max-lag 6");
    let master = Redis::start(options.clone()).await.unwrap();
    let promoted = replica_of(&master, options.clone()).await;
    let hanging = replica_of(&master, options.clone()).await;
    // The new master needs a good replica, too.
    let _good = replica_of(&promoted, options).await;
    let at =
        |server: &Redis| format!("{}?longest_lease=3s&{url_options}", crate::support::url(server));
    let (recorder, lease) = (Recorder::new(1), Duration::from_secs(3));
    let first = connect(&at(&master)).await;
    crate::support::first_use(&*first).await;
    let holder = hold(&recorder, &LockClient::new(first), lease).await;

    hanging.pause().unwrap();
    assert_eq!(promoted.cli(&["REPLICAOF", "NO", "ONE"]).await.unwrap(), "OK");
    let second = LockClient::new(connect(&at(&promoted)).await);
    assert!(second.guarantees().exclusion.holds(), "{:?}", second.guarantees());
    let began = Instant::now();
    let next = hold(&recorder, &second, lease).await;
    println!("{url_options:?}: first grant after {:?}", began.elapsed());
    assert_eq!(master.info("role").await.unwrap(), "master");
    next.end().await;
    holder.end().await;
    hanging.resume().unwrap();
    check(&recorder.history(), ALL_RULES)
}

#[tokio::test]
async fn the_quarantine_waits_for_the_lag_of_an_old_masters_replicas() {
    let (with, without) = tokio::join!(lagging(""), lagging("failover_margin=0s"));
    assert!(with.is_empty(), "{with:?}");
    // An operator's setting that is wrong.
    assert!(without.iter().any(|violation| violation.rule == Rule::Exclusion), "{without:?}");
}
