//! Nodes that have reached their maxmemory and evict nothing. They accept no new locks. Held locks
//! can still be renewed, released and granted to waiters.

use std::sync::Arc;

use futures_util::future::join_all;
use lock_core::{
    Backend, Env as _, ErrorKind, FencingToken, Mode, ReleaseOptions, ReleaseOutcome, Signal,
    SystemEnv,
};

use crate::support::{
    LEASE, Nodes, SOON, busy, enqueued, eventually, granted, name, renewed, request,
};

async fn limit(nodes: &Nodes, bytes: &str) {
    for server in &nodes.servers {
        assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", bytes]).await.unwrap(), "OK");
    }
}

/// From now on no node has memory left.
async fn fill(nodes: &Nodes) {
    limit(nodes, "1").await;
    for server in &nodes.servers {
        let answer = server.cli(&["SET", "more", "1"]).await.unwrap();
        assert!(answer.contains("OOM"), "there is memory left");
    }
}

async fn refused(store: &dyn Backend, text: &str) {
    let error = store.try_acquire(&request(text, LEASE)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

async fn freed(nodes: &Nodes, text: &str) {
    let gone = || async { (nodes.keeping(&name(text)).await == 0).then_some(()) };
    eventually("all nodes to have freed it", gone).await;
}

async fn full() -> (Nodes, Arc<dyn Backend>) {
    let nodes = Nodes::start(3).await;
    let store = nodes.direct().await;
    granted(&*store, &request("warm", LEASE)).await;
    (nodes, store)
}

#[tokio::test]
async fn with_no_memory_left_held_locks_are_unharmed() {
    let (nodes, store) = full().await;
    let grant = granted(&*store, &request("a", LEASE)).await;
    let kept = granted(&*store, &request("kept", LEASE)).await;
    fill(&nodes).await;
    refused(&*store, "b").await;
    renewed(&*store, &[&grant]).await;
    store.raise(&grant, FencingToken::new(grant.token.get() + 5).unwrap()).await.unwrap();
    let released = store.release(&grant, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    freed(&nodes, "a").await;
    let keep = ReleaseOptions::new().with_keep(LEASE / 2);
    assert_eq!(store.release(&kept, keep).await.unwrap().outcome, ReleaseOutcome::Released);
    assert!(store.inspect(&name("kept")).await.unwrap().unwrap().kept);
    assert_eq!(store.force_release(&name("kept")).await.unwrap(), ReleaseOutcome::Released);
    freed(&nodes, "kept").await;
    limit(&nodes, "0").await;
    assert!(granted(&*store, &request("a", LEASE)).await.token.get() > grant.token.get() + 5);
}

#[tokio::test]
async fn with_no_memory_left_a_release_carries_the_next_request() {
    let (nodes, store) = full().await;
    let held = granted(&*store, &request("a", LEASE)).await;
    fill(&nodes).await;
    let next = request("a", LEASE);
    let options = ReleaseOptions::new().with_next(&next);
    let released = store.release(&held, options).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    assert!(released.next.is_some(), "the next request was not granted");
    let seen = store.inspect(&name("a")).await.unwrap().unwrap();
    assert_eq!(seen.holder.unwrap().owner, next.owner);
}

#[tokio::test]
async fn with_no_memory_left_an_abandoned_owner_is_freed_and_refused() {
    let (nodes, store) = full().await;
    let (holder, stranger) = (request("a", LEASE), request("a", LEASE));
    granted(&*store, &holder).await;
    fill(&nodes).await;
    for owner in [&holder, &stranger] {
        store.abandon(owner).await.unwrap();
    }
    freed(&nodes, "a").await;
    limit(&nodes, "0").await;
    for owner in [&holder, &stranger] {
        busy(&*store, owner).await;
    }
    granted(&*store, &request("a", LEASE)).await;
}

#[tokio::test]
async fn with_no_memory_left_a_waiter_keeps_its_entry_is_called_and_served() {
    let (nodes, store) = full().await;
    let other = nodes.direct().await;
    let held = granted(&*store, &request("a", LEASE)).await;
    let waiter = request("a", LEASE);
    let (mut turn, _) = enqueued(&*other, &waiter).await;
    fill(&nodes).await;
    busy(&*other, &waiter).await;
    let released = store.release(&held, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    let called = tokio::time::timeout(SOON, turn.next()).await.unwrap();
    assert!(matches!(called, Signal::Recheck), "{called:?}");
    let next = granted(&*other, &waiter).await;
    assert!(next.token > held.token);
    renewed(&*other, &[&next]).await;
}

#[tokio::test]
async fn with_no_memory_left_readers_stay_and_leave() {
    let (nodes, store) = full().await;
    let reader = || request("a", LEASE).with_mode(Mode::Shared);
    let (one, two) = (granted(&*store, &reader()).await, granted(&*store, &reader()).await);
    let writer = request("a", LEASE);
    let (mut turn, _) = enqueued(&*store, &writer).await;
    fill(&nodes).await;
    renewed(&*store, &[&one]).await;
    store.raise(&one, FencingToken::new(two.token.get() + 5).unwrap()).await.unwrap();
    store.abandon(&reader()).await.unwrap();
    for grant in [&one, &two] {
        let released = store.release(grant, ReleaseOptions::default()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
    }
    let called = tokio::time::timeout(SOON, turn.next()).await.unwrap();
    assert!(matches!(called, Signal::Recheck), "{called:?}");
    limit(&nodes, "0").await;
    assert!(granted(&*store, &writer).await.token.get() > two.token.get() + 5);
}

#[tokio::test]
async fn with_no_memory_left_batches_release() {
    let (nodes, store) = full().await;
    let requests: Vec<_> = (0..40).map(|n| request(&format!("job {n}"), LEASE)).collect();
    let attempts = join_all(requests.iter().map(|asked| store.try_acquire(asked))).await;
    let held: Vec<_> = attempts.into_iter().filter_map(|got| got.unwrap().granted()).collect();
    assert_eq!(held.len(), 40);
    fill(&nodes).await;
    let released = held.iter().map(|grant| store.release(grant, ReleaseOptions::default()));
    for released in join_all(released).await {
        assert_eq!(released.unwrap().outcome, ReleaseOutcome::Released);
    }
    join_all((0..20).map(|n| {
        let (store, text) = (&store, format!("new {n}"));
        async move { refused(&**store, &text).await }
    }))
    .await;
    assert!(SystemEnv.now() < held[0].from + LEASE, "the leases have ended by themselves");
}
