//! What fewer than a majority say decides nothing, and what a majority has lost is lost.

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::Server as _;
use lock_core::{Env as _, Grant, Renewal, Request, SystemEnv};

use super::{
    LATE, LEASE, SOON, attempt, cut, forgotten, granted, granted_by_all, late, lock, set, settled,
    three,
};
use crate::{
    quorum::Quorum,
    support::{Nodes, name, request},
};

async fn renewed(quorum: &Arc<Quorum>, grant: &Grant) -> Renewal {
    quorum.renew_batch(&[grant], SystemEnv.now()).await.remove(0)
}

#[tokio::test]
async fn one_node_of_three_renews_nothing() {
    let (nodes, quorum) = three().await;
    let grant = granted_by_all(&nodes, &quorum, &request("a", LEASE)).await;
    cut(&nodes, &[0, 1]).await;
    let answer = renewed(&quorum, &grant).await;
    assert!(matches!(answer, Renewal::Unknown(_)), "{answer:?}");
}

#[tokio::test]
async fn one_node_of_three_loses_nothing() {
    let (nodes, quorum) = three().await;
    let asked = request("a", LEASE);
    let grant = granted_by_all(&nodes, &quorum, &asked).await;
    forgotten(&nodes, &[0], &asked.name).await;
    // It is heard first.
    late(&nodes, 1).await;
    late(&nodes, 2).await;
    let answer = renewed(&quorum, &grant).await;
    assert!(matches!(answer, Renewal::Renewed { .. }), "{answer:?}");
}

#[tokio::test]
async fn one_node_of_three_releases_nothing() {
    let (nodes, quorum) = three().await;
    let grant = granted_by_all(&nodes, &quorum, &request("a", LEASE)).await;
    cut(&nodes, &[0, 1]).await;
    let error = quorum.release(&grant, None, None).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
}

#[tokio::test]
async fn one_node_of_three_abandons_nothing() {
    let (nodes, quorum) = three().await;
    cut(&nodes, &[0, 1]).await;
    let error = quorum.abandon(&request("a", LEASE)).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
}

/// A grant that only the third node has any more; its holder knows.
async fn lost() -> (Nodes, Arc<Quorum>, Request, Grant) {
    let (nodes, quorum) = three().await;
    let asked = request("a", LEASE);
    let grant = granted_by_all(&nodes, &quorum, &asked).await;
    forgotten(&nodes, &[0, 1], &asked.name).await;
    let answer = renewed(&quorum, &grant).await;
    assert!(matches!(answer, Renewal::Lost(_)), "{answer:?}");
    (nodes, quorum, asked, grant)
}

#[tokio::test]
async fn what_a_majority_has_lost_is_not_renewed_again() {
    let (nodes, quorum, asked, grant) = lost().await;
    for at in [0, 1] {
        set(&nodes, at, &asked.name, grant.owner, grant.token.get()).await;
    }
    let answer = renewed(&quorum, &grant).await;
    assert!(matches!(answer, Renewal::Lost(_)), "{answer:?}");
}

#[tokio::test]
async fn what_a_lost_grant_has_left_stays_while_it_may_be_believed() {
    let (nodes, quorum, asked, _grant) = lost().await;
    let watched = SystemEnv.now() + Duration::from_secs(1);
    while SystemEnv.now() < watched {
        assert_eq!(nodes.keeping(&asked.name).await, 1, "the third gave it back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_a_lost_grant_has_left_is_not_abandoned() {
    let (nodes, quorum, asked, _grant) = lost().await;
    quorum.abandon(&asked).await.unwrap();
    settled(&quorum).await;
    assert_eq!(nodes.keeping(&asked.name).await, 1, "the third gave it back");
}
