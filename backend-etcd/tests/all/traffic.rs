//! The cost of a lock, by etcd's own metrics of requests and log entries.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lock_core::{Backend, Env as _, FencingToken, Grant, Lock, LockClient, SystemEnv};
use servers::Member;
use tokio::time::timeout;

use crate::support::{
    busy, connect, granted, pushed, release, request, single, until, waits, watchers,
};

const HANDOFFS: usize = 20;
const LOCKS: u32 = 300;

/// How many requests etcd has received, by method.
async fn requests(member: &Member) -> Vec<(String, f64)> {
    let metrics = member.metrics().await.unwrap();
    let handled = metrics.lines().filter_map(|line| {
        let (labels, count) =
            line.strip_prefix("grpc_server_started_total{grpc_method=\"")?.rsplit_once(' ')?;
        let (method, _) = labels.split_once('"')?;
        Some((method.to_owned(), count.parse().ok()?))
    });
    handled.collect()
}

async fn total(member: &Member) -> f64 {
    requests(member).await.iter().map(|(_, count)| count).sum()
}

/// The requests of which handoffs consist. Others, such as keepalives, depend on the speed of the
/// machine.
async fn of_handoffs(member: &Member) -> f64 {
    let all = requests(member).await;
    let counted = all.iter().filter(|(method, _)| ["Txn", "LeaseRevoke"].contains(&&**method));
    counted.map(|(_, count)| count).sum()
}

/// Log entries that clients caused. An expired lease also makes one.
async fn entries(member: &Member) -> f64 {
    let all = member.metric("etcd_server_proposals_applied_total").await.unwrap();
    all - member.metric("etcd_debugging_server_lease_expired_total").await.unwrap()
}

/// Requests and log entries per handoff, in a queue of this many entries, each of another client.
///
/// Raises of the offset are subtracted. There is one each second, so their number depends on the
/// speed of the machine. The pools of leases are not refilled.
async fn cost_of_a_handoff(count: usize) -> (f64, f64) {
    let etcd = single().await;
    let member = &etcd.members()[0];
    let url = format!("etcd://{}?timeout=60s&spare_leases=0", etcd.endpoints()[0]);
    let holder = backend_etcd::connect(&url).await.unwrap();
    let grant = granted(&*holder, &request()).await;
    let mut held: (Arc<dyn Backend>, Grant) = (holder, grant);
    let mut waiting = Vec::new();
    for _ in 0..count {
        let backend = backend_etcd::connect(&url).await.unwrap();
        let request = request();
        let waiter = waits(&*backend, &request).await;
        waiting.push((backend, request, waiter));
    }
    // The watches are opened in the background. The wake-ups when they open must not count.
    until("the watches", async || watchers(&etcd).await >= count as f64).await;
    for (_, _, waiter) in &mut waiting {
        let _ = timeout(Duration::from_millis(1), waiter.next()).await;
    }
    let before = (of_handoffs(member).await, entries(member).await);
    let began = SystemEnv.now();
    for (backend, request, mut waiter) in waiting.drain(..HANDOFFS) {
        release(&*held.0, &held.1).await;
        let grant = pushed(&*backend, &request, &mut *waiter).await;
        held = (backend, grant);
    }
    let after = (of_handoffs(member).await, entries(member).await);
    let raises = SystemEnv.now().since(began).as_secs_f64().ceil();
    let per_handoff = |after: f64, before: f64| (after - before - raises) / HANDOFFS as f64;
    (per_handoff(after.0, before.0), per_handoff(after.1, before.1))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handoff_costs_the_same_however_many_wait() {
    // A revoke and a read. After a raise of the offset, each entry that waited finds it changed and
    // is written. On a busy machine, each may also read once more when it learns that its watch has
    // begun.
    for count in [HANDOFFS, HANDOFFS * 4] {
        let (requests, entries) = cost_of_a_handoff(count).await;
        let seen =
            format!("{requests} requests and {entries} log entries per handoff, {count} wait");
        assert!(requests < 4.5 && entries < 2.5, "{seen}");
        println!("{seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_polls_less_often_the_further_back_it_is() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "5s").await;
    granted(&*backend, &request()).await;
    let (requests, mut waiters) = ([(); 6].map(|()| request()), Vec::new());
    for request in &requests {
        waiters.push(waits(&*backend, request).await);
    }
    let member = &etcd.members()[0];
    let poll = || async {
        let before = (total(member).await, entries(member).await);
        let mut pauses = Vec::new();
        for request in &requests {
            let busy = busy(&*backend, request).await;
            assert!(busy.holder.unwrap().remaining > Duration::ZERO);
            pauses.push(busy.retry_after.as_millis());
        }
        assert_eq!(pauses, [500, 1000, 1500, 2000, 2500, 3000]);
        let after = (total(member).await, entries(member).await);
        assert!(after.1 - before.1 < 0.5, "{} log entries", after.1 - before.1);
        after.0 - before.0
    };
    assert_eq!(backend.guarantees().longest_poll, Duration::from_secs(10));
    // First each reads the queue and the remaining time of the holder's lease, later only the
    // queue.
    let (first, next) = (poll().await, poll().await);
    assert!((11.5..12.5).contains(&first), "{first} requests");
    assert!((5.5..6.5).contains(&next), "{next} requests");
}

/// The release of a writer deletes the entry, and returns the lease after a read. That of a reader
/// revokes the lease, and another comes from a burst.
#[tokio::test(flavor = "multi_thread")]
async fn an_uncontended_lock_is_two_log_entries_and_that_of_a_reader_three() {
    let etcd = single().await;
    let client = LockClient::new(connect(etcd.endpoints()[0], "5s").await);
    cost_of_uncontended(client.lock("job"), true, &etcd.members()[0]).await;
    cost_of_uncontended(client.lock("job").shared(), false, &etcd.members()[0]).await;
}

async fn cost_of_uncontended(lock: Lock, returns: bool, member: &Member) {
    let cycle = || async {
        lock.clone().acquire().await.unwrap().release().await.unwrap();
    };
    for _ in 0..300 {
        cycle().await;
    }
    let since = Instant::now();
    let before = (requests(member).await, entries(member).await);
    for _ in 0..LOCKS {
        cycle().await;
    }
    let after = (requests(member).await, entries(member).await);
    let seconds = since.elapsed().as_secs_f64().ceil();
    let more = |method: &str| {
        let of = |all: &[(String, f64)]| {
            all.iter().filter(|(name, _)| name == method).map(|(_, count)| count).sum::<f64>()
        };
        of(&after.0) - of(&before.0)
    };
    let locks = f64::from(LOCKS);
    // An observation of the cluster is a transaction between two `Status`. It is made once a
    // minute.
    let observations = (seconds / 60.0).ceil();
    // One more each second, for a raise of the offset by another client.
    let others = seconds + observations + 0.5;
    let (transactions, reads) = if returns { (2.0 * locks, locks) } else { (locks, 0.0) };
    // A returned lease is too old after a sixth of its time.
    let leases = if returns { seconds } else { locks };
    assert!(more("Txn") <= transactions + others, "{} transactions", more("Txn"));
    assert!(more("Status") <= 2.0 * observations + 0.5, "{} Status", more("Status"));
    assert!(more("LeaseRevoke") <= leases + 0.5, "{} revokes", more("LeaseRevoke"));
    // The last burst may not be used yet.
    assert!(more("LeaseGrant") <= leases + 64.5, "{} leases", more("LeaseGrant"));
    assert!(more("LeaseTimeToLive") <= reads + 1.5, "{} reads", more("LeaseTimeToLive"));
    assert!(more("Range") < 1.5, "{} Range", more("Range"));
    let entries = after.1 - before.1;
    assert!(entries <= transactions + 2.0 * leases + 64.5 + others, "{entries} log entries");
}

/// The settings and the entry are known, so they are compared without a read.
#[tokio::test(flavor = "multi_thread")]
async fn a_raise_is_one_transaction_and_another_of_the_same_grant_two() {
    let etcd = single().await;
    let member = &etcd.members()[0];
    let backend = connect(etcd.endpoints()[0], "5s").await;
    let request = request();
    let grant = granted(&*backend, &request).await;
    let transactions = async || {
        let all = requests(member).await;
        all.iter().filter(|(method, _)| method == "Txn").map(|(_, count)| count).sum::<f64>()
    };
    let mut costs = Vec::new();
    for micros in [1_000_000, 2_000_000] {
        let token = FencingToken::new(grant.token.get() + micros).unwrap();
        let before = transactions().await;
        backend.raise(&grant, token).await.unwrap();
        costs.push(transactions().await - before);
        let state = backend.inspect(&request.name).await.unwrap().unwrap();
        assert_eq!(state.token, token);
    }
    assert!(costs[0] < 1.5 && costs[1] < 2.5, "{costs:?} transactions");
}

#[tokio::test(flavor = "multi_thread")]
async fn spare_leases_are_bounded_and_revoked_on_close() {
    let etcd = single().await;
    let url = format!("etcd://{}?spare_leases=5", etcd.endpoints()[0]);
    let client = LockClient::new(backend_etcd::connect(&url).await.unwrap());
    let leases = async || {
        let listed = etcd.ctl(&["lease", "list"]).await.unwrap();
        listed.lines().filter(|line| !line.starts_with("found")).count()
    };
    let mut most = 0;
    for _ in 0..50 {
        client.lock("job").acquire().await.unwrap().release().await.unwrap();
        most = most.max(leases().await);
    }
    // The pool, and the lease that showed the shortest length.
    assert!((2..=6).contains(&most), "{most} leases of an idle client");
    client.close().await;
    assert_eq!(leases().await, 0, "left behind");

    let none = format!("etcd://{}?spare_leases=0", etcd.endpoints()[0]);
    let client = LockClient::new(backend_etcd::connect(&none).await.unwrap());
    client.lock("job").acquire().await.unwrap().release().await.unwrap();
    until("the end of the lease that showed the shortest length", async || leases().await <= 1)
        .await;
    client.close().await;
}
