//! What a release leaves behind: minimum holds, and keys in etcd's history.

use std::{collections::HashSet, time::Duration};

use backend_etcd::HeldKey;
use etcd_client::{Client, Txn, TxnOp, WatchOptions};
use lock_core::{Env as _, FencingToken, LockClient, ReleaseOptions, ReleaseOutcome, SystemEnv};
use servers::Etcd;
use tokio::time::timeout;

use crate::support::{LEASE, WAIT, busy, connect, granted, name, pair, request, single};

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

/// All keys with a prefix that ever existed, and how often one was created.
async fn past_keys(etcd: &Etcd, prefix: &str) -> (HashSet<String>, usize) {
    let client = Client::connect([etcd.endpoints()[0].to_string()], None).await.unwrap();
    let last = client.kv_client().put("the end", "", None).await.unwrap();
    let last = last.header().unwrap().revision();
    let options = WatchOptions::new().with_range("~").with_start_revision(1);
    let mut watch = client.watch_client().watch("\0", Some(options)).await.unwrap();
    let (mut keys, mut made) = (HashSet::new(), 0);
    loop {
        let answer = timeout(WAIT, watch.message()).await.expect("past events").unwrap().unwrap();
        for event in answer.events() {
            let pair = event.kv().unwrap();
            if pair.mod_revision() == last {
                return (keys, made);
            }
            let key = pair.key_str().unwrap();
            if key.starts_with(prefix) && pair.create_revision() == pair.mod_revision() {
                made += 1;
                keys.insert(key.to_owned());
            }
        }
    }
}

/// To find the entries of a name, etcd walks over all keys that the name ever had, until they are
/// compacted.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_held_very_often_leaves_few_keys_behind() {
    let (etcd, clients) = pair().await;
    let clients = clients.map(LockClient::new);
    for _ in 0..50 {
        clients[0].lock(name()).acquire().await.unwrap().release().await.unwrap();
    }
    // By several tasks of each of the two clients.
    let tasks = clients.iter().cycle().take(6).map(|client| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                let lock = client.lock(name()).wait(WAIT);
                lock.clone().acquire().await.unwrap().release().await.unwrap();
                lock.shared().acquire().await.unwrap().release().await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let (keys, made) = past_keys(&etcd, "leasehold/job/").await;
    assert!(made >= 350, "{made} entries");
    let (readers, writers): (Vec<_>, Vec<_>) = keys.iter().partition(|key| key.contains('~'));
    // For each client: one that holds, one that waits, and one whose outcome was not known yet.
    assert!(writers.len() <= 6, "{made} entries had these keys: {keys:?}");
    // For each task one, and for each client one whose outcome was not known yet.
    assert!(!readers.is_empty() && readers.len() <= 8, "{made} entries had these keys: {keys:?}");
}
