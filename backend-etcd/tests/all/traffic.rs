//! The cost of a lock, by etcd's own count of requests and of log entries.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use conformance_tests::kit::Member;
use lock_core::{
    Backend, Env as _, FencingToken, Grant, Lock, LockClient, ReleaseOptions, SystemEnv, Waiter,
};
use tokio::time::timeout;

use crate::support::{WAIT, connect, request, single};

const HANDOFFS: usize = 20;
const LOCKS: u32 = 300;

/// All requests that were answered, by method.
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

/// Log entries that clients asked for: an expired lease makes one, too.
async fn entries(member: &Member) -> f64 {
    let all = member.metric("etcd_server_proposals_applied_total").await.unwrap();
    all - member.metric("etcd_debugging_server_lease_expired_total").await.unwrap()
}

/// So many places stand in the queue, each of a client of its own; each is served in turn and goes.
///
/// Without what raises of the offset cost, one each second: they are a matter of time, and the machine may be slow.
async fn cost_of_a_handoff(places: usize) -> (f64, f64) {
    let etcd = single().await;
    let member = &etcd.members()[0];
    let holder = connect(etcd.endpoints()[0], "5s").await;
    let mut held: (Arc<dyn Backend>, Grant) = {
        let grant = holder.try_acquire(&request()).await.unwrap().granted().unwrap();
        (holder, grant)
    };
    let mut waiting = Vec::new();
    for _ in 0..places {
        let backend = connect(etcd.endpoints()[0], "5s").await;
        let request = request();
        let lock_core::Enqueued::Waiting(turn, _) = backend.enqueue(&request).await.unwrap() else {
            panic!("two holders");
        };
        waiting.push((backend, request, turn));
    }
    // The watches are opened beside the places: what they tell on opening is not to count.
    let open = async {
        while member.metric("etcd_debugging_mvcc_watcher_total").await.unwrap() < places as f64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(WAIT, open).await.expect("the watches are open");
    for (_, _, turn) in &mut waiting {
        let _ = timeout(Duration::from_millis(1), turn.next()).await;
    }
    let before = (total(member).await, entries(member).await);
    let began = SystemEnv.now();
    for (backend, request, mut turn) in waiting.drain(..HANDOFFS) {
        held.0.release(&held.1, ReleaseOptions::default()).await.unwrap();
        let grant = timeout(WAIT, pushed(&*backend, &request, &mut *turn)).await;
        held = (backend, grant.expect("its turn is pushed"));
    }
    let after = (total(member).await, entries(member).await);
    let raises = SystemEnv.now().since(began).as_secs() as f64;
    let per_handoff = |after: f64, before: f64| (after - before - raises) / HANDOFFS as f64;
    (per_handoff(after.0, before.0), per_handoff(after.1, before.1))
}

async fn pushed(
    backend: &dyn Backend,
    request: &lock_core::Request,
    turn: &mut dyn Waiter,
) -> Grant {
    loop {
        turn.next().await;
        if let Some(grant) = backend.try_acquire(request).await.unwrap().granted() {
            return grant;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handoff_costs_the_same_however_many_wait() {
    let (few, few_entries) = cost_of_a_handoff(HANDOFFS).await;
    let (many, many_entries) = cost_of_a_handoff(HANDOFFS * 4).await;
    println!(
        "per handoff: {few:.2} requests, {few_entries:.2} log entries; {many:.2}, {many_entries:.2}"
    );
    // A revoke and a read. A raise of the offset overtakes the places that stand there: each of them finds that it
    // was, and is written. Beside them there may be leases for the client's stock.
    for (requests, entries) in [(few, few_entries), (many, many_entries)] {
        assert!(requests < 3.9, "{requests} requests per handoff");
        assert!(entries < 2.9, "{entries} log entries per handoff");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_asks_more_seldom_the_further_back_it_stands() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "5s").await;
    let mut requests = Vec::new();
    let mut turns = Vec::new();
    for _ in 0..7 {
        let request = request();
        if let lock_core::Enqueued::Waiting(turn, _) = backend.enqueue(&request).await.unwrap() {
            turns.push(turn);
        }
        requests.push(request);
    }
    let member = &etcd.members()[0];
    let ask = || async {
        let before = (total(member).await, entries(member).await);
        let mut pauses = Vec::new();
        for request in &requests[1..] {
            match backend.try_acquire(request).await.unwrap() {
                lock_core::Attempt::Busy(busy) => {
                    assert!(busy.holder.unwrap().remaining > Duration::ZERO);
                    pauses.push(busy.retry_after.as_millis());
                }
                other => panic!("two holders: {other:?}"),
            }
        }
        assert_eq!(pauses, [500, 1000, 1500, 2000, 2500, 3000]);
        let after = (total(member).await, entries(member).await);
        assert!(after.1 - before.1 < 0.5, "{} log entries", after.1 - before.1);
        after.0 - before.0
    };
    assert_eq!(backend.guarantees().longest_poll, Duration::from_secs(10));
    // At first each reads the queue, and how long the holder's lease lasts; then the queue only.
    let (first, next) = (ask().await, ask().await);
    assert!((11.5..12.5).contains(&first), "{first} requests");
    assert!((5.5..6.5).contains(&next), "{next} requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncontended_lock_is_two_requests_and_a_lease_from_a_burst() {
    let etcd = single().await;
    let client = LockClient::new(connect(etcd.endpoints()[0], "5s").await);
    for lock in [client.lock("job"), client.lock("job").shared()] {
        cost_of_uncontended(lock, &etcd.members()[0]).await;
    }
}

async fn cost_of_uncontended(lock: Lock, member: &Member) {
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
    // An observation of the cluster is a transaction between two `Status`. It is made once a minute.
    let observations = (seconds / 60.0).ceil();
    // One more each second, for a raise of the offset that is not its own.
    let others = seconds + observations + 0.5;
    assert!(more("Txn") <= locks + others, "{} transactions", more("Txn"));
    assert!(more("Status") <= 2.0 * observations + 0.5, "{} Status", more("Status"));
    assert!((more("LeaseRevoke") - locks).abs() < 0.5);
    // The last burst may be ahead of its use.
    assert!(more("LeaseGrant") <= locks + 64.5, "{} leases", more("LeaseGrant"));
    for other in ["Range", "LeaseTimeToLive"] {
        assert!(more(other) < 1.5, "{} {other}", more(other));
    }
    let entries = after.1 - before.1;
    assert!(entries <= 3.0 * locks + 64.5 + others, "{entries} log entries");
}

/// The settings and the place are known: they are compared, and not read first.
#[tokio::test(flavor = "multi_thread")]
async fn a_raise_is_one_transaction_and_another_of_the_same_grant_two() {
    let etcd = single().await;
    let member = &etcd.members()[0];
    let backend = connect(etcd.endpoints()[0], "5s").await;
    let request = request();
    let grant = backend.try_acquire(&request).await.unwrap().granted().unwrap();
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
    // The stock, and one that told the shortest lease.
    assert!((2..=6).contains(&most), "{most} leases of an idle client");
    client.close().await;
    assert_eq!(leases().await, 0, "left behind");

    let none = format!("etcd://{}?spare_leases=0", etcd.endpoints()[0]);
    let client = LockClient::new(backend_etcd::connect(&none).await.unwrap());
    client.lock("job").acquire().await.unwrap().release().await.unwrap();
    let began = SystemEnv.now();
    while leases().await > 1 {
        assert!(SystemEnv.now().since(began) < Duration::from_secs(10));
    }
    client.close().await;
}
