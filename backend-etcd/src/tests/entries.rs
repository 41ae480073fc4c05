//! Queue entries: they are woken, kept alive, and not left behind. Leases: how long a client may
//! believe in one, and how it is kept alive.

use std::sync::atomic::Ordering;

use lock_core::{
    Backend as _, Enqueued, Env as _, ReleaseOptions, ReleaseOutcome, Signal, SystemEnv,
};
use servers::{Mode, Proxy};
use tokio::time::{sleep, timeout};

use super::*;
use crate::{keys::entry::EnqueueAttempt, rpc::Lease};

const STEP: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_the_first_waiter() {
    let (etcd, [one, two]) = pair().await;
    let held = granted(&one, &request("job")).await;
    granted(&one, &request("other")).await;
    let (wanted, later) = (request("job"), request("other"));
    let (mut waiter, mut last) = (waits(&two, &wanted).await, waits(&two, &later).await);
    let member = &etcd.members()[0];
    while member.metric("etcd_debugging_mvcc_watcher_total").await.unwrap() < 0.5 {
        sleep(STEP).await;
    }
    release(&one, &held).await;
    // The watch reports this after the release: once this waiter knows its loss, everything before
    // it was reported.
    end(&etcd, two.waiters.get(later.owner).unwrap().lease().id).await;
    while !matches!(timeout(PATIENCE, last.next()).await.expect("its end"), Signal::Lost(_)) {}
    let entry = two.waiters.get(wanted.owner).unwrap();
    assert!(entry.predecessor_gone.load(Ordering::Acquire), "the release was not reported to it");
    let signal = timeout(PATIENCE, waiter.next()).await.expect("it is woken");
    assert!(matches!(signal, Signal::Recheck), "{signal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_kept_alive() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let mut wanted = request("job");
    wanted.lease = Duration::from_secs(6);
    let _waiter = waits(&two, &wanted).await;
    let entry = two.waiters.get(wanted.owner).unwrap();
    let first = entry.lease().from;
    while entry.lease().from <= first {
        assert_eq!(waiting(&one, "job").await, Some(1), "it ends while somebody waits in it");
        sleep(STEP).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entry_of_a_dropped_waiter_ends() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let mut wanted = request("job");
    wanted.lease = Duration::from_secs(4);
    let waiter = waits(&two, &wanted).await;
    let entry = two.waiters.get(wanted.owner).unwrap();
    drop(waiter);
    // A keepalive may be under way.
    let dropped = SystemEnv.now();
    let ended = async {
        while waiting(&one, "job").await != Some(0) {
            assert!(entry.lease().from <= dropped, "it is kept alive, and nobody waits in it");
            sleep(STEP).await;
        }
    };
    timeout(PATIENCE, ended).await.expect("its end");
}

/// Makes an entry as if its request had no answer, and returns its lease.
async fn unanswered(store: &Store, wanted: &Request) -> Lease {
    let waiter = waits(store, wanted).await;
    let entry = store.waiters.get(wanted.owner).unwrap();
    drop(waiter);
    let (lease, reserved) = (entry.lease(), Arc::clone(&entry.reserved));
    store.attempts.note(wanted.owner, EnqueueAttempt { lease, reserved });
    lease
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_an_unanswered_request_is_not_pooled() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let wanted = request("job");
    let lease = unanswered(&two, &wanted).await;
    one.abandon(&wanted).await.unwrap();
    let refused = two.enqueue(&wanted).await.unwrap();
    assert!(matches!(refused, Enqueued::Waiting(..)), "{refused:?}");
    let pooled = two.leases.pool.take(lease.ttl, history(&two).await);
    assert!(pooled.is_none_or(|pooled| pooled.id != lease.id), "another entry would use it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_release_starts_no_minimum_hold() {
    let (_etcd, [one, _]) = pair().await;
    let grant = granted(&one, &request("job")).await;
    release(&one, &grant).await;
    let keep = ReleaseOptions::new().with_keep(LEASE);
    let late = one.release(&grant, keep).await.unwrap();
    assert_eq!(late.outcome, ReleaseOutcome::NotHeld);
    granted(&one, &request("job")).await;
}

/// As if the first try had another lease, and this client had not recorded it.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_found_keeps_its_own_lease_alive() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let wanted = request("job");
    let lease = unanswered(&two, &wanted).await;
    let EnqueueAttempt { reserved, .. } = two.attempts.get(wanted.owner).unwrap();
    let other = two.leases.take(LEASE, history(&two).await).await.unwrap();
    two.attempts.note(wanted.owner, EnqueueAttempt { lease: other, reserved });
    let _waiter = waits(&two, &wanted).await;
    let found = two.waiters.get(wanted.owner).unwrap().lease().id;
    assert_eq!(found, lease.id, "another lease is kept alive than that of the entry");
}

/// Shorter than the time limit of a keepalive.
const LATE: Duration = Duration::from_millis(600);

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_counts_from_when_its_keepalive_was_sent() {
    let etcd = start().await;
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let store = open(proxy.address()).await;
    let lease = store.rpc.grant(LEASE).await.unwrap().id;
    store.keepalives.extend(lease).await.unwrap();
    let delay = Mode::Delay { to_server: Duration::ZERO, to_client: LATE };
    proxy.set(delay).await.unwrap();
    let extended = async {
        loop {
            // On a busy machine a keepalive may exceed its time limit.
            if let Ok(Some(extended)) = store.keepalives.extend(lease).await {
                return extended;
            }
        }
    };
    let extended = tokio::time::timeout(PATIENCE, extended).await.expect("an answer");
    let answered = SystemEnv.now();
    assert!(extended.from + LATE <= answered, "it is believed for longer than etcd keeps it");
}

/// After this long, the remaining TTL shows whether a lease was just kept alive.
const OLD: Duration = Duration::from_secs(3);

/// A caller that has given up may have given up the lease as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_keepalive_whose_caller_has_given_up_is_not_sent() {
    let etcd = start().await;
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let store = open_within(proxy.address(), Duration::from_secs(3)).await;
    let direct = open(etcd.endpoints()[0]).await;
    let (first, given_up) =
        (store.rpc.grant(LEASE).await.unwrap(), store.rpc.grant(LEASE).await.unwrap());
    tokio::time::sleep(OLD).await;
    proxy.set(Mode::BlackHole).await.unwrap();
    // They stay in the inbox until the first has waited in vain for a stream.
    let asked = [first.id].into_iter().chain([given_up.id; 8]);
    let asked =
        futures_util::future::join_all(asked.map(|lease| store.keepalives.extend(lease))).await;
    assert!(asked.iter().all(Result::is_err), "the fault did not happen");
    proxy.set(Mode::Pass).await.unwrap();
    let answered = async { while store.keepalives.extend(first.id).await.is_err() {} };
    tokio::time::timeout(PATIENCE, answered).await.expect("it is reached again");
    let left = direct.rpc.remaining(given_up.id).await.unwrap();
    assert!(left <= LEASE - OLD, "it was kept alive: {left:?} are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooled_lease_counts_from_when_it_was_granted() {
    let (_etcd, [one, _]) = pair().await;
    granted(&one, &request("held")).await;
    // A refused attempt returns its lease to the pool.
    not_granted(&one, &request("held")).await;
    let pooled = SystemEnv.now();
    let grant = granted(&one, &request("job")).await;
    assert!(grant.from <= pooled, "it is believed for longer than etcd keeps it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_pooled_lease_is_kept_alive_before_it_is_used() {
    let (_etcd, [one, _]) = pair().await;
    let history = history(&one).await;
    let short = Duration::from_secs(6);
    let pooled = one.leases.take(short, history).await.unwrap();
    one.leases.put_back(pooled, history);
    tokio::time::sleep(short / 5).await;
    let wanted = SystemEnv.now();
    let lease = one.leases.take(short, history).await.unwrap();
    assert!(lease.from >= wanted, "a part of it has passed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooled_lease_that_has_ended_is_not_used() {
    let (etcd, [one, _]) = pair().await;
    let history = history(&one).await;
    let pooled = one.leases.take(LEASE, history).await.unwrap();
    one.leases.put_back(pooled, history);
    end(&etcd, pooled.id).await;
    granted(&one, &request("job")).await;
}

/// Otherwise an acquire would wait once for each pooled lease.
#[tokio::test(flavor = "multi_thread")]
async fn only_one_pooled_lease_is_tried_while_etcd_does_not_answer() {
    let etcd = start().await;
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let (limit, leases) = (Duration::from_secs(4), 20);
    let store = open_with_pool(proxy.address(), limit, leases as usize).await;
    let history = history(&store).await;
    // Old enough to be kept alive before it is used.
    let old = SystemEnv.now().as_nanos() - (LEASE / 4).as_nanos() as u64;
    for id in 1..=leases {
        let from = lock_core::Instant::from_nanos(old);
        store.leases.put_back(crate::rpc::Lease { id, ttl: LEASE, from }, history);
    }
    proxy.set(Mode::BlackHole).await.unwrap();
    let began = SystemEnv.now();
    store.leases.take(LEASE, history).await.expect_err("nothing is answered");
    let asked = SystemEnv.now().since(began);
    assert!(asked < limit * leases as u32 / 2, "it took {asked:?}");
}
