//! The conditions of transactions that grant, at once and after a wait, also where a cluster was
//! restored.

use std::sync::atomic::Ordering;

use etcd_client::{Txn, TxnOp, TxnResponse};
use lock_core::{Backend as _, Env as _, FencingToken, Init, SystemEnv};
use servers::{Mode, Proxy, Streams};
use tokio::time::timeout;

use super::*;
use crate::{
    restore::quarantine,
    steps::admin::{put_init, running_quarantine},
};

/// As after the watch reported that the predecessor is gone: the waiter claims without a check.
fn predecessor_gone(store: &Store, request: &Request) {
    let entry = store.waiters.get(request.owner).unwrap();
    entry.predecessor_gone.store(true, Ordering::Release);
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
    let (etcd, [one, two], held, wanted, _waiter) = line().await;
    let three = open(etcd.endpoints()[0]).await;
    let next = request("job");
    let _next = waits(&three, &next).await;
    end(&etcd, two.waiters.get(wanted.owner).unwrap().lease().id).await;
    release(&one, &held).await;
    granted(&three, &next).await;
    predecessor_gone(&two, &wanted);
    not_granted(&two, &wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_behind_another_is_granted_nothing() {
    let (_etcd, [_one, two], _held, wanted, _waiter) = line().await;
    predecessor_gone(&two, &wanted);
    not_granted(&two, &wanted).await;
}

/// To a token above all that were granted so far.
async fn raise(store: &Store, grant: &Grant) -> FencingToken {
    let raised = FencingToken::new(grant.token.get() + 5_000_000).unwrap();
    store.raise(grant, raised).await.unwrap();
    raised
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_uses_the_offset_of_its_time() {
    let (_etcd, [one, two], held, wanted, _waiter) = line().await;
    let raised = raise(&one, &held).await;
    release(&one, &held).await;
    predecessor_gone(&two, &wanted);
    let grant = granted(&two, &wanted).await;
    assert!(grant.token > raised, "{} after {raised}", grant.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_after_a_wait_counts_from_the_last_confirmed_keepalive() {
    let (_etcd, [one, two], held, wanted, _waiter) = line().await;
    let waits_since = SystemEnv.now();
    release(&one, &held).await;
    let grant = granted(&two, &wanted).await;
    assert!(grant.from <= waits_since, "it is believed for longer than etcd keeps it");
}

/// The keys that forbid a grant: that of the quarantine, and the tombstone of the owner.
fn obstacles(request: &Request) -> [String; 2] {
    let tombstone = format!("leasehold/%leasehold/abandoned/{}", request.owner);
    ["leasehold/%leasehold/quarantine".to_owned(), tombstone]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_granted_nothing_in_quarantine_or_with_a_tombstone() {
    for at in 0..2 {
        let (etcd, [one, two], held, wanted, _waiter) = line().await;
        etcd.ctl(&["put", &obstacles(&wanted)[at], "a case"]).await.unwrap();
        release(&one, &held).await;
        not_granted(&two, &wanted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_is_granted_nothing_in_quarantine_or_with_a_tombstone() {
    for at in 0..2 {
        let (etcd, [one, two], held, wanted, _waiter) = line().await;
        // So that the repeat checks first, and finds its entry written as granted.
        two.watch.stop();
        raise(&one, &held).await;
        release(&one, &held).await;
        granted(&two, &wanted).await;
        etcd.ctl(&["put", &obstacles(&wanted)[at], "a case"]).await.unwrap();
        not_granted(&two, &wanted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_uses_the_offset_of_its_time() {
    let (_etcd, [one, two]) = pair().await;
    let held = granted(&one, &ahead("job")).await;
    release(&one, &held).await;
    let grant = granted(&two, &request("job")).await;
    assert!(grant.token > held.token, "{} after {}", grant.token, held.token);
}

/// A refused client reads the reason in a second request, and the reason may be gone by then.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_repeated_if_the_reason_of_its_refusal_has_gone() {
    let etcd = start().await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let (one, two) = (open(etcd.endpoints()[0]).await, open(streams.address()).await);
    let held = granted(&one, &request("job")).await;
    // The read of a tombstone, not its comparison: the tag of a read's key, and the key's length.
    streams.hold_next("Txn", "\n?leasehold/%leasehold/abandoned/");
    let attempt = {
        let two = Arc::clone(&two);
        tokio::spawn(async move { two.try_acquire(&request("job")).await.unwrap() })
    };
    let reads = async {
        while !streams.holds("Txn") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, reads).await.expect("it reads the reason");
    release(&one, &held).await;
    assert!(streams.deliver("Txn").await, "it does not wait for the answer");
    let attempt = attempt.await.unwrap();
    assert!(
        matches!(attempt, Attempt::Granted(_)),
        "refused for a reason that has gone: {attempt:?}"
    );
}

/// Sends a transaction over any connection, without the check around a grant.
async fn send(store: &Store, txn: Txn) -> TxnResponse {
    let sending = async {
        loop {
            if let Ok(answer) = store.rpc.txn(txn.clone()).await {
                return answer;
            }
        }
    };
    tokio::time::timeout(PATIENCE, sending).await.expect("an answer")
}

/// No transaction compares the lead. Only the connections show whether it was carried out before or
/// after a restore.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_begun_meanwhile_leaves_a_grant_in_doubt() {
    let etcd = start().await;
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let store = open(proxy.address()).await;
    let token = store.restore.history_token().await.unwrap();
    let read = || Txn::new().and_then([TxnOp::get("any", None)]);
    let answer = send(&store, read()).await;
    assert!(store.restore.history.is_same(&store.rpc, &token, &answer));
    proxy.set(Mode::Reset).await.unwrap();
    proxy.set(Mode::Pass).await.unwrap();
    let answer = send(&store, read()).await;
    assert!(
        !store.restore.history.is_same(&store.rpc, &token, &answer),
        "it is believed without an observation"
    );
}

const FIRST_USE: Init = Init::new().with_first_use(true);

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_first_use_ends_no_later_quarantine() {
    let (_etcd, [one, other]) = pair().await;
    let before =
        running_quarantine(&one, &one.restore.history_token().await.unwrap()).await.unwrap();
    // The quarantine waits out the old longest lease.
    let shorter = Init::new().with_longest_lease(Duration::from_secs(20));
    assert!(other.init(&shorter).await.unwrap().grants_in > Duration::ZERO);
    one.restore.history.doubt();
    assert!(put_init(&one, &FIRST_USE, before).await.unwrap());
    assert!(quarantine(&other.rpc, &other.layout).await.unwrap().is_some(), "it was ended");
    // It ends a quarantine that had begun before.
    one.init(&FIRST_USE).await.unwrap();
    assert!(quarantine(&other.rpc, &other.layout).await.unwrap().is_none(), "it goes on");
}
