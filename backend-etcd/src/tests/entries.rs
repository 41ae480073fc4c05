//! Queue entries: they are woken, kept alive, and not left behind.

use std::sync::atomic::Ordering;

use lock_core::{
    Backend as _, Enqueued, Env as _, ReleaseOptions, ReleaseOutcome, Signal, SystemEnv,
};
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
