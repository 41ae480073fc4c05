//! The conditions of transactions that grant, at once and after a wait.

use std::sync::atomic::Ordering;

use conformance_tests::kit::Streams;
use lock_core::{Backend as _, Env as _, FencingToken, SystemEnv};
use tokio::time::timeout;

use super::*;

/// As the watch does that saw the end of the place before it: it does not look first.
fn hint(store: &Store, request: &Request) {
    store.waiters.get(request.owner).unwrap().hinted.store(true, Ordering::Release);
}

/// `job`, held with a token that leads the clock, and an entry behind it.
async fn line() -> (Etcd, [Arc<Store>; 2], Grant, Request, Box<dyn Waiter>) {
    let (etcd, [one, two]) = pair().await;
    let held = granted(&one, &ahead("job")).await;
    let wanted = request("job");
    // So that it knows the offset.
    not_granted(&two, &wanted).await;
    let waiter = waits(&two, &wanted).await;
    (etcd, [one, two], held, wanted, waiter)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_ended_is_granted_nothing() {
    let (etcd, [one, two], held, wanted, _turn) = line().await;
    let three = open(etcd.endpoints()[0]).await;
    let next = request("job");
    let _next = waits(&three, &next).await;
    end(&etcd, two.waiters.get(wanted.owner).unwrap().lease().id).await;
    release(&one, &held).await;
    granted(&three, &next).await;
    hint(&two, &wanted);
    not_granted(&two, &wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_behind_another_is_granted_nothing() {
    let (_etcd, [_one, two], _held, wanted, _turn) = line().await;
    hint(&two, &wanted);
    not_granted(&two, &wanted).await;
}

/// To the highest token that may be, so that all earlier tokens are below it.
async fn raise(store: &Store, grant: &Grant) -> FencingToken {
    let raised = FencingToken::new(grant.token.get() + 5_000_000).unwrap();
    store.raise(grant, raised).await.unwrap();
    raised
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_takes_the_offset_of_its_turn() {
    let (_etcd, [one, two], held, wanted, _turn) = line().await;
    let raised = raise(&one, &held).await;
    release(&one, &held).await;
    hint(&two, &wanted);
    let grant = granted(&two, &wanted).await;
    assert!(grant.token > raised, "{} after {raised}", grant.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_after_a_wait_counts_from_the_last_credit_of_its_lease() {
    let (_etcd, [one, two], held, wanted, _turn) = line().await;
    let waits_since = SystemEnv.now();
    release(&one, &held).await;
    let grant = granted(&two, &wanted).await;
    assert!(grant.from <= waits_since, "it is believed for longer than etcd keeps it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_granted_nothing_in_quarantine() {
    let (etcd, [one, two], held, wanted, _turn) = line().await;
    etcd.ctl(&["put", "leasehold/%leasehold/quarantine", "a case"]).await.unwrap();
    release(&one, &held).await;
    not_granted(&two, &wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_an_abandoned_owner_is_granted_nothing() {
    let (etcd, [one, two], held, wanted, _turn) = line().await;
    let tombstone = format!("leasehold/%leasehold/abandoned/{}", wanted.owner);
    etcd.ctl(&["put", &tombstone, ""]).await.unwrap();
    release(&one, &held).await;
    not_granted(&two, &wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_is_granted_nothing_in_quarantine() {
    let (etcd, [one, two], held, wanted, _turn) = line().await;
    // So that it looks, and its place is written when it is granted, and found as its own.
    two.watch.stop();
    raise(&one, &held).await;
    release(&one, &held).await;
    granted(&two, &wanted).await;
    etcd.ctl(&["put", "leasehold/%leasehold/quarantine", "a case"]).await.unwrap();
    not_granted(&two, &wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_of_an_abandoned_owner_is_granted_nothing() {
    let (etcd, [one, two], held, wanted, _turn) = line().await;
    two.watch.stop();
    raise(&one, &held).await;
    release(&one, &held).await;
    granted(&two, &wanted).await;
    let tombstone = format!("leasehold/%leasehold/abandoned/{}", wanted.owner);
    etcd.ctl(&["put", &tombstone, ""]).await.unwrap();
    not_granted(&two, &wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_takes_the_offset_of_its_time() {
    let (_etcd, [one, two]) = pair().await;
    let held = granted(&one, &ahead("job")).await;
    release(&one, &held).await;
    let grant = granted(&two, &request("job")).await;
    assert!(grant.token > held.token, "{} after {}", grant.token, held.token);
}

/// A refused client asks for the reason in a second request, and the reason may be gone by then.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_whose_reason_has_gone_is_made_anew() {
    let etcd = start().await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let (one, two) = (open(etcd.endpoints()[0]).await, open(streams.address()).await);
    let held = granted(&one, &request("job")).await;
    // As it is read, and not compared: by the tag of a read's key, and the key's length.
    streams.hold_next("Txn", "\n?leasehold/%leasehold/abandoned/");
    let attempt = {
        let two = Arc::clone(&two);
        tokio::spawn(async move { two.try_acquire(&request("job")).await.unwrap() })
    };
    let asks = async {
        while !streams.holds("Txn") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, asks).await.expect("it asks why");
    release(&one, &held).await;
    assert!(streams.deliver("Txn").await, "it does not wait for the answer");
    let attempt = attempt.await.unwrap();
    assert!(matches!(attempt, Attempt::Granted(_)), "refused by what has gone: {attempt:?}");
}
