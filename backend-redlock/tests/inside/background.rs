//! What background tasks take back after an attempt or a release.

use std::{sync::Arc, time::Duration};

use lock_core::{Backend as _, FencingToken, Grant, Request};
use servers::{Mode, Proxy, Server as _};
use tokio::sync::oneshot;

use super::{
    LATE, LEASE, client, described, eventually, gathered, granted_by_all, late, passed_over,
    proxied, quick, released, released_in_a_batch, settled,
    support::{Nodes, busy, granted, request},
    taken, three,
};
use crate::{
    backend::Redlock,
    batch::{AttemptJob, Job, carry_out},
    protocol::grant_votes::GrantVotes,
    scripts::watermark,
};

/// Two nodes refuse, the second of them late. By then the third has given the lock.
#[tokio::test]
async fn what_a_failed_attempt_was_given_is_taken_back() {
    let (nodes, store) = three().await;
    let asked = request("a", LEASE);
    taken(&nodes, &[0, 1], &asked.name).await;
    late(&nodes, 1).await;
    busy(&store, &asked).await;
    settled(&store).await;
    assert_eq!(nodes.keeping(&asked.name).await, 2, "the third still has it");
}

#[tokio::test]
async fn a_late_grant_to_a_batch_is_taken_back() {
    let (nodes, store) = three().await;
    let asked = request("a", LEASE);
    taken(&nodes, &[0, 1], &asked.name).await;
    late(&nodes, 2).await;
    assert!(gathered(&store, &asked).await.is_none());
    settled(&store).await;
    assert_eq!(nodes.keeping(&asked.name).await, 2, "the third still has it");
}

#[tokio::test]
async fn a_grant_whose_caller_has_gone_is_taken_back() {
    let (nodes, store) = three().await;
    let gone = request("gone", LEASE);
    let (answer, caller) = oneshot::channel();
    drop(caller);
    let job = Job::Attempt(AttemptJob { request: gone.clone(), answer });
    carry_out(&store.quorum, vec![job]).await;
    settled(&store).await;
    let mark = ["HGET", "leasehold-redlock:{0}:epoch", &watermark(&gone.name)];
    assert_ne!(nodes.servers[2].cli(&mark).await.unwrap(), "", "no node ever gave it");
    assert_eq!(nodes.keeping(&gone.name).await, 0, "nobody gives it back");
}

/// The calls that free a lock.
#[derive(Clone, Copy, Debug)]
enum Freeing {
    Release,
    Batch,
    Abandon,
}

async fn free(store: &Redlock, freeing: Freeing, asked: &Request, grant: &Grant) {
    match freeing {
        Freeing::Release => released(store, grant).await,
        Freeing::Batch => released_in_a_batch(store, grant).await,
        Freeing::Abandon => store.abandon(asked).await.unwrap(),
    }
}

#[tokio::test]
async fn a_node_that_is_not_waited_for_is_freed_as_well() {
    for freeing in [Freeing::Release, Freeing::Batch, Freeing::Abandon] {
        let (nodes, store) = three().await;
        let asked = request("a", LEASE);
        let grant = granted_by_all(&nodes, &store, &asked).await;
        passed_over(&store, 2);
        free(&store, freeing, &asked, &grant).await;
        settled(&store).await;
        assert_eq!(nodes.keeping(&asked.name).await, 0, "{freeing:?}: the third still has it");
    }
}

/// The third node's answers to a release cannot be read. It is among the first to answer, or late.
#[tokio::test]
async fn a_node_that_is_not_understood_is_asked_once_more() {
    for (freeing, late) in
        [Freeing::Release, Freeing::Abandon].into_iter().flat_map(|it| [(it, 1), (it, 2)])
    {
        let nodes = Nodes::start(3).await;
        let texts =
            [("string.format('%.0f', now), mine and 1 or 0}", "string.format('%.0f', now)}")];
        let odd = Proxy::altering(nodes.servers[2].address(), &texts).await.unwrap();
        let mut addresses = proxied(&nodes);
        addresses[2] = odd.address();
        let store = client(described(&addresses)).await;
        let asked = request("a", LEASE);
        let grant = granted_by_all(&nodes, &store, &asked).await;
        let proxy = if late == 2 { &odd } else { &nodes.proxies[late] };
        proxy.set(Mode::Delay { to_server: LATE, to_client: Duration::ZERO }).await.unwrap();
        free(&store, freeing, &asked, &grant).await;
        settled(&store).await;
        // The whole script is sent each time.
        assert_eq!(odd.counters().altered, 2, "{freeing:?}, with node {late} late");
    }
}

async fn scripts(nodes: &Nodes, at: usize) -> u64 {
    let stats = nodes.servers[at].cli(&["INFO", "commandstats"]).await.unwrap();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.unwrap().split(',').next().unwrap().parse().unwrap()
}

/// How many scripts the third node runs, for a lock that it gives while the release is already on
/// its way.
async fn scripts_on_a_late_node(asked: Request) -> u64 {
    let (nodes, store) = three().await;
    let before = scripts(&nodes, 2).await;
    late(&nodes, 2).await;
    let grant = granted(&store, &asked).await;
    released(&store, &grant).await;
    settled(&store).await;
    assert_eq!(nodes.keeping(&asked.name).await, 0, "the third still has it");
    scripts(&nodes, 2).await - before
}

/// An attempt with a floor is sent alone, like one that came to nothing in a batch: its owner may
/// have asked before.
#[tokio::test]
async fn a_late_node_that_the_release_found_is_asked_again_only_after_an_earlier_attempt() {
    assert_eq!(scripts_on_a_late_node(request("a", LEASE)).await, 2);
    let reader = request("a", LEASE).with_mode(lock_core::Mode::Shared);
    assert_eq!(scripts_on_a_late_node(reader).await, 2);
    let mut asked = request("a", LEASE);
    asked.floor = FencingToken::new(1).unwrap();
    assert_eq!(scripts_on_a_late_node(asked).await, 3);
}

/// The third node's answer to the attempt is unknown. The node gets the release only when that is
/// repeated.
#[tokio::test]
async fn a_release_that_is_repeated_behind_refuses_what_may_yet_arrive() {
    let nodes = Nodes::start(3).await;
    let store = quick(&nodes, Duration::from_secs(2)).await;
    let third = &store.quorum.nodes[2];
    nodes.proxies[2].set(Mode::HalfCut).await.unwrap();
    let grant = granted(&store, &request("a", LEASE)).await;
    // Otherwise the client would notice the end of the call only when the release has arrived, and
    // handle it.
    let ended = || async { third.server.known_run_id().is_none().then_some(()) };
    eventually("the connection to be given up", ended).await;
    assert!(GrantVotes::of(&grant).unwrap().parts().nodes[2].doubtful);
    third.trust();
    nodes.proxies[2].set(Mode::BlackHole).await.unwrap();
    released(&store, &grant).await;
    let given_up = || async { (!third.is_trusted()).then_some(()) };
    eventually("the third to be given up", given_up).await;
    nodes.proxies[2].set(Mode::Pass).await.unwrap();
    let free = || async { (nodes.keeping(&grant.name).await == 0).then_some(()) };
    eventually("the third to be free", free).await;
    let tombstone = format!("leasehold-redlock:{{0}}:gone:{}", grant.owner);
    assert_eq!(nodes.servers[2].cli(&["EXISTS", &tombstone]).await.unwrap(), "1");
}

/// As in a program that starts a runtime for each of its jobs.
#[test]
fn a_probe_that_ends_with_its_runtime_leaves_no_node_suspected() {
    let quorum = Arc::new(super::unasked());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        quorum.suspect(0, "the case says so");
        tokio::task::yield_now().await;
    });
    assert!(!quorum.nodes[0].is_trusted());
    drop(runtime);
    assert!(quorum.nodes[0].is_trusted(), "nobody probes it, and nobody asks it any more");
}

/// The attempt never reaches the third node.
#[tokio::test]
async fn a_release_refuses_what_may_yet_arrive() {
    let nodes = Nodes::start(3).await;
    let store = quick(&nodes, Duration::from_secs(5)).await;
    let third = &store.quorum.nodes[2];
    nodes.proxies[2].set(Mode::Hold).await.unwrap();
    let grant = granted(&store, &request("a", LEASE)).await;
    let given_up = || async { (!third.is_trusted()).then_some(()) };
    eventually("the third to be given up", given_up).await;
    released(&store, &grant).await;
    nodes.proxies[2].set(Mode::Pass).await.unwrap();
    settled(&store).await;
    let tombstone = format!("leasehold-redlock:{{0}}:gone:{}", grant.owner);
    assert_eq!(nodes.servers[2].cli(&["EXISTS", &tombstone]).await.unwrap(), "1");
}
