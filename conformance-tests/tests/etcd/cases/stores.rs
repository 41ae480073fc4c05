//! Which store it is.

use lock_core::Backend as _;

use super::{open, pair};

const SETTINGS: &str = "leasehold/%leasehold/settings";

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_were_lost_and_known_are_of_the_same_store() {
    let (etcd, [one, other]) = pair().await;
    let before = one.identity().await.unwrap();
    etcd.ctl(&["del", SETTINGS]).await.unwrap();
    assert_eq!(one.identity().await.unwrap(), before);
    assert_eq!(other.identity().await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_clients_know_a_store_by_the_settings_that_it_has() {
    let (etcd, [one, other]) = pair().await;
    etcd.ctl(&["del", SETTINGS]).await.unwrap();
    // It knows nothing of those before.
    let fresh = open(etcd.endpoints()[0]).await.identity().await.unwrap();
    for store in [one, other] {
        assert_eq!(store.identity().await.unwrap(), fresh);
    }
}
