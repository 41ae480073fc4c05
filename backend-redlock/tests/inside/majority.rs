//! The answers of less than a majority decide nothing. What a majority has lost is lost.

use lock_core::{Backend as _, Env as _, Grant, ReleaseOptions, Renewal, SystemEnv};

use super::{LEASE, cut, forgotten, granted_by_all, late, set, support::request, three};
use crate::backend::Redlock;

async fn renewed(store: &Redlock, grant: &Grant) -> Renewal {
    store.renew(&[grant], SystemEnv.now()).await.remove(0)
}

#[tokio::test]
async fn one_node_of_three_renews_nothing() {
    let (nodes, store) = three().await;
    let grant = granted_by_all(&nodes, &store, &request("a", LEASE)).await;
    cut(&nodes, &[0, 1]).await;
    let answer = renewed(&store, &grant).await;
    assert!(matches!(answer, Renewal::Unknown(_)), "{answer:?}");
}

#[tokio::test]
async fn one_node_of_three_loses_nothing() {
    let (nodes, store) = three().await;
    let asked = request("a", LEASE);
    let grant = granted_by_all(&nodes, &store, &asked).await;
    forgotten(&nodes, &[0], &asked.name).await;
    // Its answer arrives first.
    late(&nodes, 1).await;
    late(&nodes, 2).await;
    let answer = renewed(&store, &grant).await;
    assert!(matches!(answer, Renewal::Renewed { .. }), "{answer:?}");
}

#[tokio::test]
async fn one_node_of_three_releases_nothing() {
    let (nodes, store) = three().await;
    let grant = granted_by_all(&nodes, &store, &request("a", LEASE)).await;
    cut(&nodes, &[0, 1]).await;
    let error = store.release(&grant, ReleaseOptions::default()).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
}

#[tokio::test]
async fn one_node_of_three_abandons_nothing() {
    let (nodes, store) = three().await;
    cut(&nodes, &[0, 1]).await;
    let error = store.abandon(&request("a", LEASE)).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
}

#[tokio::test]
async fn what_a_majority_has_lost_is_not_renewed_again() {
    let (nodes, store) = three().await;
    let asked = request("a", LEASE);
    let grant = granted_by_all(&nodes, &store, &asked).await;
    forgotten(&nodes, &[0, 1], &asked.name).await;
    let answer = renewed(&store, &grant).await;
    assert!(matches!(answer, Renewal::Lost(_)), "{answer:?}");
    for at in [0, 1] {
        set(&nodes, at, &asked.name, grant.owner, grant.token.get()).await;
    }
    let answer = renewed(&store, &grant).await;
    assert!(matches!(answer, Renewal::Lost(_)), "{answer:?}");
}
