//! Entries: they are woken, kept alive, and not left behind.

use std::sync::atomic::Ordering;

use lock_core::{Backend as _, Enqueued, ReleaseOptions, ReleaseOutcome, Signal};
use tokio::time::{sleep, timeout};

use super::*;
use crate::{keys::entry::EnqueueAttempt, rpc::Lease};

const STEP: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_the_first_who_waits() {
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
    // Told after the release: once its own place is known to be lost, all before was heard.
    end(&etcd, two.waiters.get(later.owner).unwrap().lease().id).await;
    while !matches!(timeout(PATIENCE, last.next()).await.expect("its end"), Signal::Lost(_)) {}
    let place = two.waiters.get(wanted.owner).unwrap();
    assert!(place.hinted.load(Ordering::Acquire), "it was not told of the release");
    let signal = timeout(PATIENCE, waiter.next()).await.expect("it is woken");
    assert!(matches!(signal, Signal::Recheck), "{signal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_kept_alive() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let mut wanted = request("job");
    wanted.lease = Duration::from_secs(6);
    let _turn = waits(&two, &wanted).await;
    let place = two.waiters.get(wanted.owner).unwrap();
    let first = place.lease().from;
    while place.lease().from <= first {
        assert_eq!(waiting(&one, "job").await, Some(1), "it dies while somebody waits in it");
        sleep(STEP).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_dropped_lets_its_entry_die() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let mut wanted = request("job");
    wanted.lease = Duration::from_secs(2);
    let waiter = waits(&two, &wanted).await;
    let place = two.waiters.get(wanted.owner).unwrap();
    drop(waiter);
    let last = place.lease().from;
    let died = async {
        while waiting(&one, "job").await != Some(0) {
            assert!(place.lease().from <= last, "it is kept alive, and nobody waits in it");
            sleep(STEP).await;
        }
    };
    timeout(PATIENCE, died).await.expect("its end");
}

/// An entry whose making had no answer, and its lease.
async fn not_known(store: &Store, wanted: &Request) -> Lease {
    let waiter = waits(store, wanted).await;
    let place = store.waiters.get(wanted.owner).unwrap();
    drop(waiter);
    let (lease, seat) = (place.lease(), Arc::clone(&place.seat));
    store.attempts.note(wanted.owner, EnqueueAttempt { lease, seat });
    lease
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_not_known_is_found_after_a_quarantine() {
    let (etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let wanted = request("job");
    let lease = not_known(&two, &wanted).await;
    let quarantine = "leasehold/%leasehold/quarantine";
    etcd.ctl(&["put", quarantine, "a case"]).await.unwrap();
    let held_back = two.enqueue(&wanted).await.unwrap();
    assert!(matches!(held_back, Enqueued::Quarantined(_)), "{held_back:?}");
    // Its key alone is not enough: it may serve another place of this client by then.
    assert!(two.attempts.get(wanted.owner).is_some(), "its place is forgotten");
    etcd.ctl(&["del", quarantine]).await.unwrap();
    let _turn = waits(&two, &wanted).await;
    let found = two.waiters.get(wanted.owner).unwrap().lease().id;
    assert_eq!(found, lease.id, "another lease is kept alive than that of the place");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_an_entry_that_is_not_known_is_no_spare() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let wanted = request("job");
    let lease = not_known(&two, &wanted).await;
    one.abandon(&wanted).await.unwrap();
    let refused = two.enqueue(&wanted).await.unwrap();
    assert!(matches!(refused, Enqueued::Waiting(..)), "{refused:?}");
    let spare = two.leases.pool.take(lease.ttl);
    assert!(spare.is_none_or(|spare| spare.id != lease.id), "another place would live by it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_release_keeps_nothing() {
    let (_etcd, [one, _]) = pair().await;
    let grant = granted(&one, &request("job")).await;
    release(&one, &grant).await;
    let keep = ReleaseOptions::new().with_keep(LEASE);
    let late = one.release(&grant, keep).await.unwrap();
    assert_eq!(late.outcome, ReleaseOutcome::NotHeld);
    granted(&one, &request("job")).await;
}

/// The first try of its request was not noted, and had another lease.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_found_lives_by_its_own_lease() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let wanted = request("job");
    let lease = not_known(&two, &wanted).await;
    let EnqueueAttempt { seat, .. } = two.attempts.get(wanted.owner).unwrap();
    let other = two.leases.take(LEASE).await.unwrap();
    two.attempts.note(wanted.owner, EnqueueAttempt { lease: other, seat });
    let _turn = waits(&two, &wanted).await;
    let found = two.waiters.get(wanted.owner).unwrap().lease().id;
    assert_eq!(found, lease.id, "another lease is kept alive than that of the place");
}
