//! Entries in the nodes' queues: which waiter is called, and that no entry is left without a
//! waiter.

use std::time::Duration;

use futures_util::FutureExt as _;
use lock_core::{Enqueued, Env as _, ReleaseOptions, Signal, SystemEnv};
use servers::{Data, Mode, Redis, Server as _};

use crate::support::{
    LEASE, Nodes, PATIENT, SOON, busy, connect, enqueued, eventually, granted, request,
};

#[tokio::test]
async fn a_release_calls_one_waiter_and_no_other() {
    let nodes = Nodes::start(3).await;
    let store = connect(&nodes.url(PATIENT)).await;
    let others = [connect(&nodes.url(PATIENT)).await, connect(&nodes.url(PATIENT)).await];
    let grant = granted(&*store, &request("a", LEASE)).await;
    let (first, second) = (request("a", LEASE), request("a", LEASE));
    let (one, _) = enqueued(&*others[0], &first).await;
    let (two, _) = enqueued(&*others[1], &second).await;
    let mut waiting = [(&others[0], first, one), (&others[1], second, two)];
    store.release(&grant, ReleaseOptions::default()).await.unwrap();
    // The waiter does not poll here, so only a push ends this. Which of the two is first depends on
    // what the two clients know of the nodes' clock.
    let [(_, _, one), (_, _, two)] = &mut waiting;
    let (called, at) = tokio::time::timeout(SOON, async {
        tokio::select! {
            called = one.next() => (called, 0),
            called = two.next() => (called, 1),
        }
    })
    .await
    .unwrap();
    assert!(matches!(called, Signal::Recheck), "{called:?}");
    assert!(waiting[1 - at].2.next().now_or_never().is_none(), "both were called");
    let next = granted(&**waiting[at].0, &waiting[at].1).await;
    waiting[at].0.release(&next, ReleaseOptions::default()).await.unwrap();
    let (client, asked, turn) = &mut waiting[1 - at];
    let called = tokio::time::timeout(SOON, turn.next()).await.unwrap();
    assert!(matches!(called, Signal::Recheck), "{called:?}");
    granted(&***client, asked).await;
    assert_eq!(busy(&*store, &request("a", LEASE)).await.holder.unwrap().owner, asked.owner);
}

/// Whether this many wait for "a" on a node.
async fn entries(node: &Redis, count: &str) -> Option<()> {
    let entries = node.cli(&["ZCARD", "leasehold-redlock:{0}:queue:a"]).await.unwrap();
    (entries == count).then_some(())
}

/// A node that is down when the lock is won keeps the entry that was made before.
#[tokio::test]
async fn an_entry_on_a_suspected_node_is_removed() {
    let nodes = Nodes::start(3).await;
    let (store, direct) = (nodes.proxied(PATIENT).await, nodes.direct().await);
    let held = granted(&*direct, &request("a", LEASE)).await;
    let wanted = request("a", LEASE);
    let (_turn, _) = enqueued(&*store, &wanted).await;
    eventually("an entry on the third node", || entries(&nodes.servers[2], "1")).await;
    nodes.proxies[2].set(Mode::Cut).await.unwrap();
    busy(&*store, &wanted).await;
    // On the nodes that the waiter still reaches. The third node cannot call it.
    direct.release(&held, ReleaseOptions::default()).await.unwrap();
    eventually("the lock", || async { store.try_acquire(&wanted).await.unwrap().granted() }).await;
    nodes.proxies[2].set(Mode::Pass).await.unwrap();
    eventually("the entry to be given up", || entries(&nodes.servers[2], "0")).await;
}

/// The node answers after the other two have given the lock.
#[tokio::test]
async fn an_entry_on_a_late_node_is_removed() {
    let nodes = Nodes::start(3).await;
    let (store, direct) = (nodes.proxied(PATIENT).await, nodes.direct().await);
    granted(&*direct, &request("a", LEASE)).await;
    let wanted = request("a", LEASE);
    let (_turn, _) = enqueued(&*store, &wanted).await;
    eventually("an entry on the third node", || entries(&nodes.servers[2], "1")).await;
    let late = Duration::from_millis(500);
    let mode = Mode::Delay { to_server: late, to_client: Duration::ZERO };
    nodes.proxies[2].set(mode).await.unwrap();
    for server in &nodes.servers[..2] {
        server.cli(&["DEL", "leasehold-redlock:{0}:lock:a"]).await.unwrap();
    }
    granted(&*store, &wanted).await;
    eventually("the entry to be given up", || entries(&nodes.servers[2], "0")).await;
}

/// Only one of three nodes can make an entry, and the caller does not wait.
#[tokio::test]
async fn an_entry_of_a_failed_attempt_is_removed() {
    let mut nodes = Nodes::start(3).await;
    let held = granted(&*nodes.direct().await, &request("a", LEASE)).await;
    for server in &mut nodes.servers[1..] {
        server.restart(Data::Lose).await.unwrap();
    }
    let store = nodes.direct().await;
    for _ in 0..3 {
        let answer = store.enqueue(&request("a", LEASE)).await.unwrap();
        assert!(matches!(answer, Enqueued::Quarantined(_)), "{answer:?}");
    }
    eventually("the entries to be given up", || entries(&nodes.servers[0], "0")).await;
    assert!(SystemEnv.now() < held.from + LEASE, "the first node had nobody to wait for");
}
