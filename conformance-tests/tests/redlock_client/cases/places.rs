//! No place is left where nobody waits.

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::Server as _;
use lock_core::{Attempt, Backend as _, Enqueued, Env as _, Request, SystemEnv, Turn};

use super::{LEASE, eventually, forgotten, late, note, passed_over, settled, taken, three};
use crate::{
    backend::Redlock,
    quorum::Quorum,
    support::{Nodes, name, request},
};

async fn places(nodes: &Nodes, at: usize) -> String {
    nodes.servers[at].cli(&["ZCARD", "leasehold-redlock:{0}:queue:a"]).await.unwrap()
}

#[tokio::test]
async fn an_attempt_that_comes_to_nothing_leaves_no_place() {
    let (nodes, quorum) = three().await;
    taken(&nodes, &[0], &name("a")).await;
    for at in [1, 2] {
        let later = SystemEnv.wall_micros() + 20_000_000;
        note(&nodes, at, "from", later as u64).await;
    }
    let answer = Redlock(Arc::clone(&quorum)).enqueue(&request("a", LEASE)).await.unwrap();
    assert!(matches!(answer, Enqueued::Quarantined(_)), "{answer:?}");
    settled(&quorum).await;
    assert_eq!(places(&nodes, 0).await, "0");
}

/// Waits on all three nodes, of which two are free again.
async fn waiting() -> (Nodes, Arc<Quorum>, Request, Box<dyn Turn>) {
    let (nodes, quorum) = three().await;
    let asked = request("a", LEASE);
    taken(&nodes, &[0, 1, 2], &asked.name).await;
    let answer = Redlock(Arc::clone(&quorum)).enqueue(&asked).await.unwrap();
    let Enqueued::Waiting(turn, _) = answer else { panic!("{answer:?}") };
    let placed = || async { (places(&nodes, 2).await == "1").then_some(()) };
    eventually("a place on the third node", placed).await;
    forgotten(&nodes, &[0, 1], &asked.name).await;
    (nodes, quorum, asked, turn)
}

#[tokio::test]
async fn a_place_on_a_node_that_is_not_asked_any_more_is_given_up() {
    let (nodes, quorum, asked, _turn) = waiting().await;
    passed_over(&quorum, 2);
    let answer = Redlock(Arc::clone(&quorum)).try_acquire(&asked).await.unwrap();
    assert!(matches!(answer, Attempt::Granted(_)), "{answer:?}");
    settled(&quorum).await;
    assert_eq!(places(&nodes, 2).await, "0");
}

#[tokio::test]
async fn a_place_on_a_straggler_is_given_up() {
    let (nodes, quorum, asked, _turn) = waiting().await;
    late(&nodes, 2).await;
    let answer = Redlock(Arc::clone(&quorum)).try_acquire(&asked).await.unwrap();
    assert!(matches!(answer, Attempt::Granted(_)), "{answer:?}");
    settled(&quorum).await;
    assert_eq!(places(&nodes, 2).await, "0");
}
