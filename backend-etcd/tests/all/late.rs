//! Requests that arrive late, or a second time, after what followed them was carried out.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Backend, Enqueued, Env as _, ErrorKind, FencingToken, Grant, Init, LockClient, LossReason,
    ReleaseOptions, ReleaseOutcome, Renewal, Request, SystemEnv, Waiter,
};
use servers::{Etcd, Mode, Streams};
use tokio::time::timeout;

use crate::support::{
    LEASE, WAIT, ahead, busy, granted, leases, name, pair, proxied, queue_of, release, request,
    request_for, streamed, until, waiting, waits,
};

/// The written form of a granted entry, which only a transaction that takes a lock sends.
const TAKES: &str = "\"granted\":true";

/// An entry whose turn comes, and whose grant must be written because the offset was raised
/// meanwhile.
async fn turn_that_is_written(
    holder: &dyn Backend,
    waiter: &dyn Backend,
    wanted: &Request,
) -> Box<dyn Waiter> {
    let held = granted(holder, &ahead()).await;
    let entry = waits(waiter, wanted).await;
    holder.raise(&held, FencingToken::new(held.token.get() + 2_000_000).unwrap()).await.unwrap();
    // It reads the offset that it will have to write.
    busy(waiter, wanted).await;
    release(holder, &held).await;
    entry
}

/// A late request for a turn comes between the two steps of the release that keeps the entry for a
/// minimum hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_claim_does_not_shorten_a_minimum_hold() {
    let (etcd, streams, [direct, behind]) = streamed("5s").await;
    let wanted = request();
    let _entry = turn_that_is_written(&*direct, &*behind, &wanted).await;

    streams.hold_next("Txn", TAKES);
    let error = behind.try_acquire(&wanted).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    let grant = granted(&*behind, &wanted).await;
    streams.hold_next("LeaseRevoke", "");
    let keep = ReleaseOptions::new().with_keep(LEASE);
    let error = behind.release(&grant, keep).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    let kept = leases(&etcd, "job").await;
    assert!(streams.deliver("Txn").await, "there was no late request");
    assert_eq!(leases(&etcd, "job").await, kept, "a late request has changed the entry's lease");
    assert!(streams.deliver("LeaseRevoke").await, "the release was not held up");
    busy(&*direct, &request()).await;
}

/// A late request after the release gets no grant, even though the entry still exists, with another
/// lease.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_in_its_minimum_hold_is_granted_to_nobody() {
    let (_etcd, [direct, waiter]) = pair().await;
    let held = granted(&*direct, &request()).await;
    let wanted = request();
    let _entry = waits(&*waiter, &wanted).await;
    release(&*direct, &held).await;
    let grant = granted(&*waiter, &wanted).await;
    let keep = ReleaseOptions::new().with_keep(LEASE);
    waiter.release(&grant, keep).await.unwrap();
    busy(&*waiter, &wanted).await;
}

/// A repeat has the token of the first try, even if the offset was raised between the two.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_claim_keeps_its_token() {
    let (_etcd, [direct, waiter]) = pair().await;
    let wanted = request();
    let _entry = turn_that_is_written(&*direct, &*waiter, &wanted).await;
    let first = granted(&*waiter, &wanted).await;
    let mut other = request_for("other");
    other.floor = FencingToken::new(first.token.get() + 2_000_000).unwrap();
    granted(&*waiter, &other).await;
    // The deletion of any entry of the name wakes it, so that it claims without a check.
    waits(&*direct, &request()).await.leave().await.unwrap();
    for _ in 0..3 {
        assert_eq!(granted(&*waiter, &wanted).await.token, first.token);
    }
    let state = direct.inspect(&name()).await.unwrap().unwrap();
    assert_eq!(state.token, first.token);
}

/// A release with a next request: the release fails, and the request gets its entry.
async fn failed_release_with_a_next_request()
-> (Streams, [Arc<dyn Backend>; 2], Grant, Request, Etcd) {
    let (etcd, streams, [direct, behind]) = streamed("10s").await;
    let held = granted(&*behind, &request()).await;
    let next = request();
    streams.refuse("LeaseRevoke");
    let both = ReleaseOptions::new().with_next(&next);
    let error = behind.release(&held, both).await.unwrap_err();
    assert!(streams.refused("LeaseRevoke") > 0, "the fault did not happen");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "nothing was released: {error}");
    streams.serve("LeaseRevoke");
    assert_eq!(waiting(&*direct).await, Some(1));
    (streams, [direct, behind], held, next, etcd)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_repeat_of_a_release_with_a_next_request_makes_no_second_entry() {
    let (_streams, [direct, behind], held, next, _etcd) =
        failed_release_with_a_next_request().await;
    let both = ReleaseOptions::new().with_next(&next);
    let released = behind.release(&held, both).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    let grant = match released.next {
        Some(Enqueued::Granted(grant)) => grant,
        other => panic!("it waits behind itself: {other:?}"),
    };
    assert!(grant.token > held.token);
    assert_eq!(waiting(&*direct).await, Some(0));
    is_renewed(&*behind, &grant).await;
}

/// A renewal extends the lease of the entry.
async fn is_renewed(backend: &dyn Backend, grant: &Grant) {
    tokio::time::sleep(Duration::from_secs(3)).await;
    let began = SystemEnv.now();
    let answer = backend.renew(&[grant], began).await.pop().unwrap();
    assert!(matches!(answer, Renewal::Renewed { .. }), "{answer:?}");
    let state = backend.inspect(&grant.name).await.unwrap().unwrap();
    let took = SystemEnv.now().since(began);
    // etcd reports whole seconds, rounded down.
    let left = took + state.holder.unwrap().remaining + Duration::from_secs(1);
    assert!(left >= LEASE, "it is believed for {LEASE:?}, and kept for less than {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entry_of_an_abandoned_next_request_is_deleted() {
    let (_streams, [direct, behind], held, next, _etcd) =
        failed_release_with_a_next_request().await;
    behind.abandon(&next).await.unwrap();
    assert_eq!(waiting(&*direct).await, Some(0));
    release(&*behind, &held).await;
    granted(&*direct, &request()).await;
}

/// The store had lost the lock before any release arrived: the caller must not learn that it was
/// released.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_lost_before_its_release_arrived_was_not_held() {
    let (_etcd, streams, [direct, behind]) = streamed("10s").await;
    let client = LockClient::new(behind);
    let held = granted(&*direct, &request()).await;
    let wait = || tokio::spawn(client.lock("job").lease(LEASE).wait(WAIT * 2).acquire());
    let first = wait();
    queue_of(&*direct, 1).await;
    let second = wait();
    release(&*direct, &held).await;
    let first = timeout(WAIT, first).await.unwrap().unwrap().unwrap();
    streams.refuse("LeaseRevoke");
    let releasing = tokio::spawn(first.release());
    queue_of(&*direct, 1).await;
    direct.force_release(&name()).await.unwrap();
    assert!(streams.refused("LeaseRevoke") > 0, "the release arrived");
    streams.serve("LeaseRevoke");
    let released = timeout(WAIT, releasing).await.unwrap().unwrap();
    assert_eq!(released.unwrap_err().kind(), ErrorKind::NotHeld);
    drop(timeout(WAIT, second).await.unwrap().unwrap().unwrap());
}

/// The same if only the next request has no answer.
#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_a_lost_lock_is_not_reported_as_a_release() {
    let (_etcd, streams, [direct, behind]) = streamed("5s").await;
    let held = granted(&*behind, &request()).await;
    direct.force_release(&name()).await.unwrap();
    let next = request();
    streams.hold_next("Txn", "\"granted\":");
    let both = ReleaseOptions::new().with_next(&next);
    let error = behind.release(&held, both).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "it counts as released: {error}");
    assert!(streams.deliver("Txn").await, "the request was answered");
    let released = behind.release(&held, both).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld);
    assert!(matches!(released.next, Some(Enqueued::Granted(_))), "{released:?}");
}

/// The transaction arrives after its client has given its owner up.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_that_arrives_after_the_clean_up_changes_nothing() {
    let (_etcd, streams, [direct, behind]) = streamed("60s").await;
    let held = granted(&*direct, &request()).await;
    let late = request();
    streams.hold_next("Txn", &late.owner.to_string());
    let (store, grant, asked): (Arc<dyn Backend>, _, _) = (behind, held.clone(), late.clone());
    let call = tokio::spawn(async move { store.reown(&grant, &asked).await });
    until("the hand-over to be held up", async || streams.holds("Txn")).await;
    direct.abandon(&late).await.unwrap();
    assert!(streams.deliver("Txn").await, "there was no late request");
    assert!(call.await.unwrap().unwrap().is_none(), "it came after the clean-up");
    let renewed = direct.renew(&[&held], lock_core::Instant::default()).await;
    assert!(matches!(renewed[..], [Renewal::Renewed { .. }]), "{renewed:?}");
}

/// The former owner's client still knows its lease. That lease is gone, and the new owner's is not.
#[tokio::test(flavor = "multi_thread")]
async fn the_former_owner_neither_renews_nor_revokes_the_new_lease() {
    let (_etcd, _streams, [former, other]) = streamed("60s").await;
    let held = granted(&*former, &request()).await;
    let next = request();
    let given = other.reown(&held, &next).await.unwrap().expect("it is held");
    let renewed = former.renew(&[&held], lock_core::Instant::default()).await;
    assert!(matches!(renewed[..], [Renewal::Lost(LossReason::TakenOver)]), "{renewed:?}");
    let released = former.release(&held, ReleaseOptions::new()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld);
    // Its pool of leases ends with it.
    former.close().await;
    let renewed = other.renew(&[&given], lock_core::Instant::default()).await;
    assert!(matches!(renewed[..], [Renewal::Renewed { .. }]), "{renewed:?}");
}

/// The first attempt makes its entry, but its answer is lost. The repeat meets a quarantine. No
/// other key may use the entry's lease, or it would end with the entry.
#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_an_unanswered_enqueue_serves_no_other_request() {
    let (etcd, proxy, [direct, behind]) = proxied("5s").await;
    let held = granted(&*direct, &request()).await;
    // The refused attempt returns its lease to the pool.
    busy(&*behind, &request()).await;

    proxy.set(Mode::HalfCut).await.unwrap();
    let lost = request();
    let error = behind.enqueue(&lost).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert!(proxy.counters().to_client.swallowed > 0, "the fault did not happen");
    proxy.set(Mode::Pass).await.unwrap();
    assert_eq!(waiting(&*direct).await, Some(1), "the lost try made no entry");

    let longer = Init::new().with_longest_lease(LEASE * 2);
    direct.init(&longer).await.unwrap();
    let repeated = behind.enqueue(&lost).await.unwrap();
    assert!(matches!(repeated, Enqueued::Quarantined(_)), "{repeated:?}");
    // The test ends the quarantine: a client that waited for its end would keep the lease alive.
    let ended = etcd.ctl(&["del", "leasehold/%leasehold/quarantine"]).await.unwrap();
    assert_eq!(ended.trim(), "1");

    let other = request_for("other");
    let grant = granted(&*behind, &other).await;
    // The repeat finds the entry of the first attempt, and makes no second one.
    let again = behind.enqueue(&lost).await.unwrap();
    assert!(matches!(again, Enqueued::Waiting(..)), "{again:?}");
    assert_eq!(waiting(&*direct).await, Some(1));
    drop(again);
    behind.abandon(&lost).await.unwrap();
    assert_eq!(waiting(&*direct).await, Some(0));
    let state = direct.inspect(&other.name).await.unwrap().expect("the other lock is still held");
    assert_eq!((state.holder.unwrap().owner, state.token), (other.owner, grant.token));
    assert!(grant.token > held.token);
}
