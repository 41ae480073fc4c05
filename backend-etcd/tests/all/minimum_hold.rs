//! Minimum holds: the lock is kept for a while after its release.

use std::time::Duration;

use backend_etcd::HeldKey;
use etcd_client::{Client, Txn, TxnOp};
use lock_core::{Env as _, FencingToken, LockClient, ReleaseOptions, ReleaseOutcome, SystemEnv};

use crate::support::{LEASE, busy, connect, granted, pair, request, single};

/// The lease of a minimum hold may come from the pool, and a part of it may have passed.
#[tokio::test(flavor = "multi_thread")]
async fn a_minimum_hold_is_not_shortened_by_the_age_of_a_pooled_lease() {
    let (_etcd, [backend, _]) = pair().await;
    let grant = granted(&*backend, &request()).await;
    // The refused attempt returns its lease to the pool.
    busy(&*backend, &request()).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let began = SystemEnv.now();
    let keep = ReleaseOptions::new().with_keep(LEASE);
    backend.release(&grant, keep).await.unwrap();
    let state = backend.inspect(&grant.name).await.unwrap().unwrap();
    let took = SystemEnv.now().since(began);
    // etcd reports whole seconds, rounded down.
    let kept = took + state.holder.unwrap().remaining + Duration::from_secs(1);
    assert!(kept >= LEASE, "it is kept for less than {kept:?}");
}

/// A client that has released the lock no longer holds it, although no other client can have it
/// yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_its_minimum_hold_is_not_held() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let client = LockClient::new(connect(address, "10s").await);
    let data = Client::connect([address.to_string()], None).await.unwrap();
    let guard = client.lock("job").lease(LEASE).at_least(LEASE).acquire().await.unwrap();
    let held = HeldKey::of(&guard).unwrap();
    let write = async |value: &str| {
        let txn = Txn::new().when(held.is_held()).and_then([TxnOp::put("data", value, None)]);
        data.kv_client().txn(txn).await.unwrap().succeeded()
    };
    assert!(write("held").await);
    guard.release().await.unwrap();
    let kept = client.backend().inspect(&"job".try_into().unwrap()).await.unwrap();
    assert!(kept.is_some(), "there was no minimum hold");
    assert!(!write("released").await, "it wrote after its release");
}

/// `inspect` shows the raised token, even during the minimum hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_minimum_hold_keeps_a_raised_token() {
    let (_etcd, [backend, _]) = pair().await;
    let grant = granted(&*backend, &request()).await;
    let raised = FencingToken::new(grant.token.get() + 1_000_000).unwrap();
    backend.raise(&grant, raised).await.unwrap();
    let keep = ReleaseOptions::new().with_keep(LEASE);
    let released = backend.release(&grant, keep).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    let state = backend.inspect(&grant.name).await.unwrap().unwrap();
    assert_eq!(state.token, raised, "granted was {}", grant.token);
    // A second release changes nothing.
    let again = backend.release(&grant, keep).await.unwrap();
    assert_eq!(again.outcome, ReleaseOutcome::NotHeld);
    assert_eq!(backend.inspect(&grant.name).await.unwrap().unwrap().token, raised);
}
