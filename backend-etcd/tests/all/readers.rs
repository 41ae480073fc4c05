//! Readers in etcd: what the suite does not test.

use std::time::Duration;

use etcd_client::{Client, Compare, CompareOp, PutOptions, Txn, TxnOp};
use futures_util::future::join_all;
use lock_core::{Backend, Enqueued, Fence, Mode, Request};
use servers::{Mode as Link, Proxy};

use crate::support::{
    busy, connect, granted, name, proxied, release, request, request_for, single, waits,
};

fn reader() -> Request {
    request().with_mode(Mode::Shared)
}

/// How many readers share the lock, and how many requests wait.
async fn counts(backend: &dyn Backend) -> Option<(Option<u64>, Option<u64>)> {
    let state = backend.inspect(&name()).await.unwrap();
    state.map(|state| (state.readers, state.waiting))
}

#[tokio::test(flavor = "multi_thread")]
async fn more_readers_share_a_lock_than_elsewhere() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "20s&longest_lease=600s").await;
    assert_eq!(backend.guarantees().most_readers, None);
    // The last joins before the lease of the first ends, on a busy machine too.
    let mut requests: Vec<_> = (0..=Mode::MOST_READERS).map(|_| reader()).collect();
    requests.iter_mut().for_each(|request| request.lease = Duration::from_secs(600));
    let mut last = None;
    for some in requests.chunks(50) {
        let grants = join_all(some.iter().map(|request| granted(&*backend, request))).await;
        last = grants.into_iter().next_back();
    }
    assert_eq!(counts(&*backend).await, Some((Some(requests.len() as u64), Some(0))));
    busy(&*backend, &request()).await;
    release(&*backend, &last.unwrap()).await;
    assert_eq!(counts(&*backend).await, Some((Some(requests.len() as u64 - 1), Some(0))));
}

/// The first try makes the reader's entry, but its answer is lost. A repeat finds the entry.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_makes_no_second_reader() {
    let (_etcd, proxy, [direct, _]) = proxied("5s").await;
    granted(&*direct, &request_for("other")).await;
    // Each client has observed the cluster and has a pooled lease from a refused attempt, so its
    // next call is one request.
    let client = async || {
        let behind = connect(proxy.address(), "5s").await;
        busy(&*behind, &request_for("other")).await;
        behind
    };
    let (behind, at_once) = (client().await, reader());
    lose(&proxy, async || behind.try_acquire(&at_once).await.map(drop)).await;
    assert_eq!(counts(&*direct).await, Some((Some(1), Some(0))));
    let grant = granted(&*behind, &at_once).await;
    assert_eq!(counts(&*direct).await, Some((Some(1), Some(0))));

    let (behind_too, queued) = (client().await, reader());
    lose(&proxy, async || behind_too.enqueue(&queued).await.map(drop)).await;
    assert_eq!(counts(&*direct).await, Some((Some(2), Some(0))));
    let Enqueued::Granted(second) = behind_too.enqueue(&queued).await.unwrap() else {
        panic!("only readers hold the lock");
    };
    assert_eq!(counts(&*direct).await, Some((Some(2), Some(0))));
    release(&*behind, &grant).await;
    release(&*behind_too, &second).await;
    assert_eq!(counts(&*direct).await, None);

    // After such an entry is abandoned, it blocks nobody.
    let writer = granted(&*direct, &request()).await;
    let (behind, lost) = (client().await, reader());
    lose(&proxy, async || behind.enqueue(&lost).await.map(drop)).await;
    assert_eq!(counts(&*direct).await, Some((None, Some(1))));
    behind.abandon(&lost).await.unwrap();
    assert_eq!(counts(&*direct).await, Some((None, Some(0))));
    release(&*direct, &writer).await;
    granted(&*direct, &request()).await;
}

/// Loses the answer to a call.
async fn lose(proxy: &Proxy, call: impl AsyncFnOnce() -> Result<(), lock_core::Error>) {
    let before = proxy.counters().to_client.swallowed;
    proxy.set(Link::HalfCut).await.unwrap();
    let error = call().await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert!(proxy.counters().to_client.swallowed > before, "the fault did not happen");
    proxy.set(Link::Pass).await.unwrap();
}

/// As docs/readers-and-writers.md says about stores in which readers do not share one token.
#[tokio::test(flavor = "multi_thread")]
async fn a_fence_that_has_seen_a_reader_refuses_one_that_came_before_it() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "5s").await;
    assert!(!backend.guarantees().one_token_for_readers);
    let [one, two] = [granted(&*backend, &reader()).await, granted(&*backend, &reader()).await];
    let fence = Fence::new();
    fence.admit("data", two.token).unwrap();
    fence.admit("data", one.token).unwrap_err();
}

/// Writers that wait behind a reader do not block it.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_is_served_before_the_writers_behind_it() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "5s").await;
    let before = granted(&*backend, &request()).await;
    let (read, write) = (reader(), request());
    let _waiting = [waits(&*backend, &read).await, waits(&*backend, &write).await];
    assert_eq!(counts(&*backend).await, Some((None, Some(2))));
    release(&*backend, &before).await;
    busy(&*backend, &write).await;
    let inside = granted(&*backend, &read).await;
    busy(&*backend, &write).await;
    release(&*backend, &inside).await;
    let after = granted(&*backend, &write).await;
    assert!(before.token < inside.token && inside.token < after.token);
}

/// An older client is one that does not know readers. This test sends its requests. The values of
/// entries must be as it knows them.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_client_and_readers_keep_each_other_out() {
    const OLD: [&str; 5] = ["owner", "label", "offset", "granted", "kept"];
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "5s").await;
    let client = Client::connect([etcd.endpoints()[0].to_string()], None).await.unwrap();
    let lease = client.lease_client().grant(30, None).await.unwrap().id();
    let prefix = format!("leasehold/{}/", name());
    let owner = request().owner;
    let theirs = format!("{prefix}1f");
    let value =
        format!(r#"{{"owner":"{owner}","label":"old","offset":0,"granted":true,"kept":false}}"#);
    let acquire = async || {
        let none = Compare::create_revision(prefix.as_str(), CompareOp::Equal, 0).with_prefix();
        let options = PutOptions::new().with_lease(lease);
        let put = TxnOp::put(theirs.as_str(), value.as_str(), Some(options));
        client.kv_client().txn(Txn::new().when([none]).and_then([put])).await.unwrap().succeeded()
    };
    let inside = granted(&*backend, &reader()).await;
    assert!(!acquire().await, "two holders");
    let options = etcd_client::GetOptions::new().with_prefix();
    let entries = client.kv_client().get(prefix.as_str(), Some(options)).await.unwrap();
    let [entry] = entries.kvs() else { panic!("{entries:?}") };
    let entry: serde_json::Map<_, _> = serde_json::from_slice(entry.value()).unwrap();
    assert!(entry.keys().all(|field| OLD.contains(&field.as_str())), "{entry:?}");
    assert_eq!(entry.len(), OLD.len());

    release(&*backend, &inside).await;
    assert!(acquire().await);
    busy(&*backend, &reader()).await;
    let state = backend.inspect(&name()).await.unwrap().unwrap();
    assert_eq!((state.holder.unwrap().owner, state.readers), (owner, None));
}
