//! Places: what wakes them, what keeps them, and that none is left behind.

use std::sync::atomic::Ordering;

use conformance_tests::kit::Streams;
use lock_core::{Backend as _, Enqueued, Outcome, Release, Signal};
use tokio::time::{sleep, timeout};

use super::*;
use crate::{rpc::Lease, store::Tried};

const STEP: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_the_first_who_waits() {
    let (etcd, [one, two]) = pair().await;
    let held = granted(&one, &request("job")).await;
    granted(&one, &request("other")).await;
    let (wanted, later) = (request("job"), request("other"));
    let (mut turn, mut last) = (waits(&two, &wanted).await, waits(&two, &later).await);
    let member = &etcd.members()[0];
    while member.metric("etcd_debugging_mvcc_watcher_total").await.unwrap() < 0.5 {
        sleep(STEP).await;
    }
    release(&one, &held).await;
    // Told after the release: once its own place is known to be lost, all before was heard.
    end(&etcd, two.places.get(later.owner).unwrap().lease().id).await;
    while !matches!(timeout(PATIENCE, last.next()).await.expect("its end"), Signal::Lost(_)) {}
    let place = two.places.get(wanted.owner).unwrap();
    assert!(place.hinted.load(Ordering::Acquire), "it was not told of the release");
    let signal = timeout(PATIENCE, turn.next()).await.expect("it is woken");
    assert!(matches!(signal, Signal::Recheck), "{signal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_hangs_is_replaced() {
    let (etcd, [one, _]) = pair().await;
    granted(&one, &request("job")).await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let two = open(streams.address()).await;
    let _turn = waits(&two, &request("job")).await;
    let opened = async |least: u64, within: Duration| {
        let opened = async {
            while streams.opened("Watch") < least {
                sleep(STEP).await;
            }
        };
        timeout(within, opened).await.expect("a watch")
    };
    opened(1, PATIENCE).await;
    streams.stick("Watch");
    // After two seconds of silence.
    opened(2, PATIENCE / 3).await;
    assert!(streams.swallowed("Watch") > 0, "the fault did not happen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_kept_alive() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let mut wanted = request("job");
    wanted.lease = Duration::from_secs(6);
    let _turn = waits(&two, &wanted).await;
    let place = two.places.get(wanted.owner).unwrap();
    let first = place.lease().from;
    while place.lease().from <= first {
        assert_eq!(waiting(&one, "job").await, Some(1), "it dies while somebody waits in it");
        sleep(STEP).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_dropped_lets_its_place_die() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let mut wanted = request("job");
    wanted.lease = Duration::from_secs(2);
    let turn = waits(&two, &wanted).await;
    let place = two.places.get(wanted.owner).unwrap();
    drop(turn);
    let last = place.lease().from;
    let died = async {
        while waiting(&one, "job").await != Some(0) {
            assert!(place.lease().from <= last, "it is kept alive, and nobody waits in it");
            sleep(STEP).await;
        }
    };
    timeout(PATIENCE, died).await.expect("its end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_left_is_gone() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let turn = waits(&two, &request("job")).await;
    assert_eq!(waiting(&one, "job").await, Some(1));
    turn.leave().await.unwrap();
    assert_eq!(waiting(&one, "job").await, Some(0), "it is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_abandoned_owner_took_is_free() {
    let (_etcd, [one, two]) = pair().await;
    let given_up = request("job");
    granted(&one, &given_up).await;
    one.abandon(&given_up).await.unwrap();
    granted(&two, &request("job")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_owner_gets_no_place() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let given_up = request("job");
    two.abandon(&given_up).await.unwrap();
    let ghost = two.enqueue(&given_up).await.unwrap();
    assert!(matches!(ghost, Enqueued::Waiting(..)), "{ghost:?}");
    assert_eq!(waiting(&one, "job").await, Some(0), "a ghost stands in the queue");
}

/// A place whose making had no answer, and its lease.
async fn not_known(store: &EtcdBackend, wanted: &Request) -> Lease {
    let turn = waits(store, wanted).await;
    let place = store.places.get(wanted.owner).unwrap();
    drop(turn);
    let (lease, seat) = (place.lease(), Arc::clone(&place.seat));
    store.note_try(wanted.owner, Tried { lease, seat });
    lease
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_not_known_is_found_after_a_quarantine() {
    let (etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let wanted = request("job");
    let lease = not_known(&two, &wanted).await;
    let quarantine = "leasehold/%leasehold/quarantine";
    etcd.ctl(&["put", quarantine, "a case"]).await.unwrap();
    let held_back = two.enqueue(&wanted).await.unwrap();
    assert!(matches!(held_back, Enqueued::Quarantined(_)), "{held_back:?}");
    // Its key alone is not enough: it may serve another place of this client by then.
    assert!(two.tried(wanted.owner).is_some(), "its place is forgotten");
    etcd.ctl(&["del", quarantine]).await.unwrap();
    let _turn = waits(&two, &wanted).await;
    let found = two.places.get(wanted.owner).unwrap().lease().id;
    assert_eq!(found, lease.id, "another lease is kept alive than that of the place");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_a_place_that_is_not_known_is_no_spare() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let wanted = request("job");
    let lease = not_known(&two, &wanted).await;
    one.abandon(&wanted).await.unwrap();
    let refused = two.enqueue(&wanted).await.unwrap();
    assert!(matches!(refused, Enqueued::Waiting(..)), "{refused:?}");
    let spare = two.spares.take(lease.ttl);
    assert!(spare.is_none_or(|spare| spare.id != lease.id), "another place would live by it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_frees_the_name() {
    let (_etcd, [one, two]) = pair().await;
    let grant = granted(&one, &request("job")).await;
    release(&one, &grant).await;
    granted(&two, &request("job")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_release_keeps_nothing() {
    let (_etcd, [one, _]) = pair().await;
    let grant = granted(&one, &request("job")).await;
    release(&one, &grant).await;
    let keep = Release { keep: Some(LEASE), ..Release::default() };
    let late = one.release(&grant, keep).await.unwrap();
    assert_eq!(late.outcome, Outcome::NotHeld);
    granted(&one, &request("job")).await;
}

/// The first try of its request was not noted, and had another lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_found_lives_by_its_own_lease() {
    let (_etcd, [one, two]) = pair().await;
    granted(&one, &request("job")).await;
    let wanted = request("job");
    let lease = not_known(&two, &wanted).await;
    let Tried { seat, .. } = two.tried(wanted.owner).unwrap();
    let other = two.lease(LEASE).await.unwrap();
    two.note_try(wanted.owner, Tried { lease: other, seat });
    let _turn = waits(&two, &wanted).await;
    let found = two.places.get(wanted.owner).unwrap().lease().id;
    assert_eq!(found, lease.id, "another lease is kept alive than that of the place");
}

/// A request goes with a release that is refused, and gets its place.
async fn carried() -> (Etcd, Streams, Arc<EtcdBackend>, Grant, Request) {
    let etcd = start().await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let behind = open(streams.address()).await;
    let held = granted(&behind, &request("job")).await;
    let next = request("job");
    streams.refuse("LeaseRevoke");
    let both = Release { next: Some(&next), ..Release::default() };
    behind.release(&held, both).await.expect_err("a release");
    assert!(streams.refused("LeaseRevoke") > 0, "the fault did not happen");
    streams.serve("LeaseRevoke");
    (etcd, streams, behind, held, next)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_carried_place_does_not_stand_behind_itself() {
    let (_etcd, _streams, behind, held, next) = carried().await;
    assert!(behind.tried(next.owner).is_some(), "its place is forgotten");
    // Somebody else of this client has the next key.
    let _taken = behind.seats.take(&behind.layout, &name("job"));
    let both = Release { next: Some(&next), ..Release::default() };
    let released = behind.release(&held, both).await.unwrap();
    assert!(matches!(released.next, Some(Enqueued::Granted(_))), "{released:?}");
    assert_eq!(waiting(&behind, "job").await, Some(0), "a second place was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_owner_is_remembered_for_as_long_as_its_lease() {
    let (_etcd, [one, _]) = pair().await;
    let grave = one.grave(10 * LEASE).await.unwrap();
    assert!(grave.ttl >= 10 * LEASE, "a late attempt may come after {:?}", grave.ttl);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_kept_is_not_held() {
    let (_etcd, [one, _]) = pair().await;
    let client = lock_core::LockClient::new(one.clone());
    let guard = client.lock("job").lease(LEASE).at_least(LEASE).acquire().await.unwrap();
    let held = crate::HeldKey::of(&guard).unwrap();
    let is_held = async || {
        let txn = etcd_client::Txn::new().when([held.is_held()]);
        one.rpc.txn(txn).await.unwrap().succeeded()
    };
    assert!(is_held().await);
    guard.release().await.unwrap();
    assert!(!is_held().await, "it was given back");
}
