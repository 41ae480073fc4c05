//! Readers in etcd: what the suite does not see.

use conformance_tests::kit::{Mode as Link, Proxy};
use etcd_client::{Client, Compare, CompareOp, PutOptions, Txn, TxnOp};
use futures_util::future::join_all;
use lock_core::{
    Attempt, Backend, Enqueued, Fence, Grant, LockName, Mode, ReleaseOptions, Request,
};

use crate::support::{connect, name, request, single};

fn reader() -> Request {
    request().with_mode(Mode::Shared)
}

async fn granted(backend: &dyn Backend, request: &Request) -> Grant {
    let attempt = backend.try_acquire(request).await.unwrap();
    attempt.granted().expect("nothing is in the way")
}

async fn refused(backend: &dyn Backend, request: &Request) {
    let attempt = backend.try_acquire(request).await.unwrap();
    assert!(matches!(attempt, Attempt::Busy(_)), "two holders: {attempt:?}");
}

async fn release(backend: &dyn Backend, grant: &Grant) {
    backend.release(grant, ReleaseOptions::default()).await.unwrap();
}

/// How many share, and how many wait.
async fn counts(backend: &dyn Backend) -> Option<(Option<u64>, Option<u64>)> {
    let state = backend.inspect(&name()).await.unwrap();
    state.map(|state| (state.readers, state.waiting))
}

#[tokio::test(flavor = "multi_thread")]
async fn more_readers_share_a_lock_than_elsewhere() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "20s").await;
    assert_eq!(backend.guarantees().most_readers, None);
    let requests: Vec<_> = (0..=Mode::MOST_READERS).map(|_| reader()).collect();
    let mut last = None;
    for some in requests.chunks(50) {
        let grants = join_all(some.iter().map(|request| granted(&*backend, request))).await;
        last = grants.into_iter().next_back();
    }
    assert_eq!(counts(&*backend).await, Some((Some(requests.len() as u64), Some(0))));
    refused(&*backend, &request()).await;
    release(&*backend, &last.unwrap()).await;
    assert_eq!(counts(&*backend).await, Some((Some(requests.len() as u64 - 1), Some(0))));
}

/// The first try makes the reader's entry, and its answer is lost: a repeat finds it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_makes_no_second_reader() {
    let etcd = single().await;
    let direct = connect(etcd.endpoints()[0], "10s").await;
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let mut other = request();
    other.name = LockName::new("other").unwrap();
    granted(&*direct, &other).await;
    // Each has looked at the cluster, and has a lease that a refused attempt has put back: the next call is one request.
    let client = async || {
        let behind = connect(proxy.address(), "1s").await;
        let mut again = request();
        again.name = other.name.clone();
        refused(&*behind, &again).await;
        behind
    };
    let (behind, at_once) = (client().await, reader());
    lose(&proxy, async || behind.try_acquire(&at_once).await.map(drop)).await;
    assert_eq!(counts(&*direct).await, Some((Some(1), Some(0))));
    let grant = granted(&*behind, &at_once).await;
    assert_eq!(counts(&*direct).await, Some((Some(1), Some(0))));

    let (behind_too, by_place) = (client().await, reader());
    lose(&proxy, async || behind_too.enqueue(&by_place).await.map(drop)).await;
    assert_eq!(counts(&*direct).await, Some((Some(2), Some(0))));
    let Enqueued::Granted(second) = behind_too.enqueue(&by_place).await.unwrap() else {
        panic!("only readers are inside");
    };
    assert_eq!(counts(&*direct).await, Some((Some(2), Some(0))));
    release(&*behind, &grant).await;
    release(&*behind_too, &second).await;
    assert_eq!(counts(&*direct).await, None);

    // A place that is lost is taken back by its owner, and keeps nobody out.
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

/// What docs/readers-and-writers.md says of stores without one token for all.
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

/// Writers that line up behind a waiting reader are not in its way, and are no reason to refuse it.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_is_served_before_the_writers_behind_it() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "5s").await;
    let before = granted(&*backend, &request()).await;
    let (read, write) = (reader(), request());
    let reading = backend.enqueue(&read).await.unwrap();
    let writing = backend.enqueue(&write).await.unwrap();
    assert!(matches!(reading, Enqueued::Waiting(..)) && matches!(writing, Enqueued::Waiting(..)));
    assert_eq!(counts(&*backend).await, Some((None, Some(2))));
    release(&*backend, &before).await;
    refused(&*backend, &write).await;
    let inside = granted(&*backend, &read).await;
    refused(&*backend, &write).await;
    release(&*backend, &inside).await;
    let after = granted(&*backend, &write).await;
    assert!(before.token < inside.token && inside.token < after.token);
}

/// As clients do that know of no readers, by what they ask of etcd: the value of an entry is as it was for them.
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
    refused(&*backend, &reader()).await;
    let state = backend.inspect(&name()).await.unwrap().unwrap();
    assert_eq!((state.holder.unwrap().owner, state.readers), (owner, None));
}
