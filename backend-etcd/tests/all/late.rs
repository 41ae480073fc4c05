//! Requests that arrive late, or a second time, after all that followed them was carried out.

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::{Etcd, Streams};
use lock_core::{
    Attempt, Backend, Enqueued, Env as _, ErrorKind, FencingToken, Grant, LockClient,
    ReleaseOptions, ReleaseOutcome, Renewal, Request, SystemEnv, Waiter,
};
use tokio::time::timeout;

use crate::support::{LEASE, WAIT, connect, leases, name, request, single, somebody_waits};

/// The written form of a granted entry, which only a transaction that takes a lock sends.
const TAKES: &str = "\"granted\":true";

/// An entry whose turn comes, and whose grant must be written since the offset was lifted meanwhile.
async fn turn_that_is_written(
    holder: &dyn Backend,
    waiter: &dyn Backend,
    wanted: &Request,
) -> Box<dyn Waiter> {
    let mut ahead = request();
    // So far ahead of the clock that nothing here lifts the offset by itself.
    ahead.floor = FencingToken::new(SystemEnv.wall_micros() + 20_000_000).unwrap();
    let held = holder.try_acquire(&ahead).await.unwrap().granted().unwrap();
    let Enqueued::Waiting(turn, _) = waiter.enqueue(wanted).await.unwrap() else {
        panic!("two holders");
    };
    holder.raise(&held, FencingToken::new(held.token.get() + 2_000_000).unwrap()).await.unwrap();
    // It looks, and knows the offset that it will have to write.
    let refused = waiter.try_acquire(wanted).await.unwrap();
    assert!(matches!(refused, Attempt::Busy(_)), "{refused:?}");
    holder.release(&held, ReleaseOptions::default()).await.unwrap();
    turn
}

async fn granted(backend: &dyn Backend, request: &Request) -> Grant {
    let asking = async {
        loop {
            match backend.try_acquire(request).await {
                Ok(Attempt::Granted(grant)) => return grant,
                Ok(other) => panic!("not granted: {other:?}"),
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    };
    timeout(WAIT, asking).await.expect("an answer")
}

/// A late request for a turn comes between the two steps of the release that keeps the entry for a minimum hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_try_of_a_turn_does_not_shorten_a_minimum_hold() {
    let etcd = single().await;
    let direct = connect(etcd.endpoints()[0], "10s").await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let behind = connect(streams.address(), "2s").await;
    let wanted = request();
    let _turn = turn_that_is_written(&*direct, &*behind, &wanted).await;

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
    assert_eq!(
        leases(&etcd, "job").await,
        kept,
        "a late request has put the entry on another lease"
    );
    assert!(streams.deliver("LeaseRevoke").await, "the release was not held up");
    let other = direct.try_acquire(&request()).await.unwrap();
    assert!(matches!(other, Attempt::Busy(_)), "the minimum hold was cut short: {other:?}");
}

/// A late request after the release gets no grant, also where the entry lives by another lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_kept_is_granted_to_nobody() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let (direct, waiter) = (connect(address, "10s").await, connect(address, "10s").await);
    let held = direct.try_acquire(&request()).await.unwrap().granted().unwrap();
    let wanted = request();
    let Enqueued::Waiting(_turn, _) = waiter.enqueue(&wanted).await.unwrap() else {
        panic!("two holders");
    };
    direct.release(&held, ReleaseOptions::default()).await.unwrap();
    let grant = granted(&*waiter, &wanted).await;
    let keep = ReleaseOptions::new().with_keep(LEASE);
    waiter.release(&grant, keep).await.unwrap();
    let late = waiter.try_acquire(&wanted).await.unwrap();
    assert!(matches!(late, Attempt::Busy(_)), "granted after its release: {late:?}");
}

/// A repeat has the token of the first try, also where the offset was lifted between the two.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_turn_keeps_its_token() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let (direct, waiter) = (connect(address, "10s").await, connect(address, "10s").await);
    let wanted = request();
    let _turn = turn_that_is_written(&*direct, &*waiter, &wanted).await;
    let first = granted(&*waiter, &wanted).await;
    let mut other = request();
    other.name = lock_core::LockName::new("other").unwrap();
    other.floor = FencingToken::new(first.token.get() + 2_000_000).unwrap();
    waiter.try_acquire(&other).await.unwrap().granted().unwrap();
    // The end of any entry of the name wakes it, so that it does not look first.
    let Enqueued::Waiting(turn, _) = direct.enqueue(&request()).await.unwrap() else {
        panic!("two holders");
    };
    turn.leave().await.unwrap();
    for _ in 0..3 {
        assert_eq!(granted(&*waiter, &wanted).await.token, first.token);
    }
    let told = direct.inspect(&name()).await.unwrap().unwrap();
    assert_eq!(told.token, first.token);
}

/// A request goes with a release that fails, and gets its entry.
async fn carried_with_a_release_that_fails()
-> (Streams, [Arc<dyn Backend>; 2], Grant, Request, Etcd) {
    let etcd = single().await;
    let direct = connect(etcd.endpoints()[0], "10s").await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let behind = connect(streams.address(), "10s").await;
    let held = behind.try_acquire(&request()).await.unwrap().granted().unwrap();
    let next = request();
    streams.refuse("LeaseRevoke");
    let both = ReleaseOptions::new().with_next(&next);
    let error = behind.release(&held, both).await.unwrap_err();
    assert!(streams.refused("LeaseRevoke") > 0, "the fault did not happen");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "nothing was given back: {error}");
    streams.serve("LeaseRevoke");
    (streams, [direct, behind], held, next, etcd)
}

async fn waiting(backend: &dyn Backend) -> Option<u64> {
    backend.inspect(&name()).await.unwrap().and_then(|state| state.waiting)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_carried_place_does_not_stand_behind_itself() {
    let (_streams, [direct, behind], held, next, _etcd) = carried_with_a_release_that_fails().await;
    assert_eq!(waiting(&*direct).await, Some(1));
    let both = ReleaseOptions::new().with_next(&next);
    let released = behind.release(&held, both).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    let grant = match released.next {
        Some(Enqueued::Granted(grant)) => grant,
        other => panic!("it stands behind itself: {other:?}"),
    };
    assert!(grant.token > held.token);
    assert_eq!(waiting(&*direct).await, Some(0));
    is_renewed(&*behind, &grant).await;
}

/// Whether a renewal extends the lease that the entry lives by.
async fn is_renewed(backend: &dyn Backend, grant: &Grant) {
    tokio::time::sleep(Duration::from_secs(3)).await;
    let began = SystemEnv.now();
    let answer = backend.renew(&[grant], began).await.pop().unwrap();
    assert!(matches!(answer, Renewal::Renewed { .. }), "{answer:?}");
    let state = backend.inspect(&grant.name).await.unwrap().unwrap();
    let asked = SystemEnv.now().since(began);
    // etcd tells whole seconds, rounded down.
    let left = asked + state.holder.unwrap().remaining + Duration::from_secs(1);
    assert!(left >= LEASE, "it is believed for {LEASE:?}, and kept for less than {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_carried_place_that_nobody_wants_any_more_is_given_up() {
    let (_streams, [direct, behind], held, next, _etcd) = carried_with_a_release_that_fails().await;
    behind.abandon(&next).await.unwrap();
    assert_eq!(waiting(&*direct).await, Some(0));
    behind.release(&held, ReleaseOptions::default()).await.unwrap();
    assert!(direct.try_acquire(&request()).await.unwrap().granted().is_some());
}

/// The store had lost the lock before any release arrived: no caller is told that it was released.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_lost_before_its_release_arrived_was_not_held() {
    let etcd = single().await;
    let direct = connect(etcd.endpoints()[0], "10s").await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let client = LockClient::new(connect(streams.address(), "10s").await);
    let held = direct.try_acquire(&request()).await.unwrap().granted().unwrap();
    let wait = || tokio::spawn(client.lock("job").lease(LEASE).wait(WAIT * 2).acquire());
    let first = wait();
    somebody_waits(&*direct).await;
    let second = wait();
    direct.release(&held, ReleaseOptions::default()).await.unwrap();
    let first = timeout(WAIT, first).await.unwrap().unwrap().unwrap();
    streams.refuse("LeaseRevoke");
    let releasing = tokio::spawn(first.release());
    somebody_waits(&*direct).await;
    direct.force_release(&name()).await.unwrap();
    assert!(streams.refused("LeaseRevoke") > 0, "the release arrived");
    streams.serve("LeaseRevoke");
    let told = timeout(WAIT, releasing).await.unwrap().unwrap();
    assert_eq!(told.unwrap_err().kind(), ErrorKind::NotHeld);
    drop(timeout(WAIT, second).await.unwrap().unwrap().unwrap());
}

/// The same where only the request that goes with it has no answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_what_was_lost_is_none_however_its_next_request_fares() {
    let etcd = single().await;
    let direct = connect(etcd.endpoints()[0], "10s").await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let behind = connect(streams.address(), "2s").await;
    let held = behind.try_acquire(&request()).await.unwrap().granted().unwrap();
    direct.force_release(&name()).await.unwrap();
    let next = request();
    streams.hold_next("Txn", "\"granted\":");
    let both = ReleaseOptions::new().with_next(&next);
    let error = behind.release(&held, both).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "it is taken for given back: {error}");
    assert!(streams.deliver("Txn").await, "the request was answered");
    let released = behind.release(&held, both).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld);
    assert!(matches!(released.next, Some(Enqueued::Granted(_))), "{released:?}");
}
