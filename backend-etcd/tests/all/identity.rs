//! The identity of a store in etcd: a migration refuses to move a store to itself.

use std::{net::SocketAddr, time::Duration};

use backend_migration::{Migration, Phase};
use futures_util::future::join_all;
use lock_core::Init;
use serde_json::Value;
use servers::{Etcd, EtcdOptions, Server as _};

use crate::support::{
    cluster::{Cluster, LONGEST, held_back, request},
    connect, single,
};

const SETTINGS: &str = "leasehold/%leasehold/settings";

/// A cluster whose flags give it the same id as the next one. The peers' URL is not used.
async fn alike() -> Etcd {
    let url = "http://127.0.0.1:2380";
    let options = EtcdOptions::new()
        .flag(format!("--initial-cluster=m0={url}"))
        .flag(format!("--initial-advertise-peer-urls={url}"))
        .flag("--initial-cluster-token=alike");
    Etcd::single(options).await.unwrap()
}

/// The id by which etcd names the cluster.
async fn cluster_id(etcd: &Etcd) -> u64 {
    let shown = etcd.ctl(&["get", "k", "-w", "json"]).await.unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown["header"]["cluster_id"].as_u64().unwrap()
}

async fn settings(etcd: &Etcd) -> Value {
    let text = etcd.ctl(&["get", SETTINGS, "--print-value-only"]).await.unwrap();
    serde_json::from_str(&text).unwrap()
}

async fn identity(address: SocketAddr) -> String {
    connect(address, "10s").await.identity().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_that_were_made_alike_are_two_stores() {
    let (one, other) = (alike().await, alike().await);
    assert_eq!(cluster_id(&one).await, cluster_id(&other).await, "they have different ids");
    let stores =
        [connect(one.endpoints()[0], "10s").await, connect(other.endpoints()[0], "10s").await];
    let identities = [stores[0].identity().await.unwrap(), stores[1].identity().await.unwrap()];
    assert_ne!(identities[0], identities[1]);
    let [old, new] = stores;
    // The same store through another client is still refused.
    let again = connect(one.endpoints()[0], "10s").await;
    let refused = Migration::new(old.clone(), again, Phase::Both).await.unwrap_err();
    assert!(refused.to_string().contains("two are needed"), "{refused}");
    Migration::new(old, new, Phase::Both).await.unwrap();
}

/// Even if several clients write the first settings at once: one succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_has_one_identity_for_all_its_clients() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let together = join_all((0..8).map(|_| identity(address))).await;
    let later = identity(address).await;
    assert!(together.iter().all(|identity| *identity == later), "{together:?}, then {later}");
    let url = format!("etcd://{address}?prefix=other/");
    let other = backend_etcd::connect(&url).await.unwrap().identity().await.unwrap();
    assert_ne!(other, later, "two namespaces are two stores");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_is_kept_as_long_as_the_data() {
    let mut cluster = Cluster::start(1).await;
    let known = cluster.connect().await;
    let identity = known.identity().await.unwrap();
    let same = async |cluster: &Cluster, when: &str| {
        for store in [&known, &cluster.connect().await] {
            assert_eq!(store.identity().await.unwrap(), identity, "{when}");
        }
    };
    for (longest, first_use) in [(20, false), (12, true)] {
        let longest_lease = Some(Duration::from_secs(longest));
        let init = Init::new().with_first_use(first_use).with_longest_lease(longest_lease);
        cluster.connect().await.init(&init).await.unwrap();
        same(&cluster, "the longest lease was changed").await;
    }
    let member = cluster.etcd.member_mut(0).process_mut();
    member.kill().unwrap();
    member.start_again().unwrap();
    cluster.etcd.wait_healthy().await.unwrap();
    same(&cluster, "the server was started again").await;
    cluster.save().await;
    known.try_acquire(&request("job")).await.unwrap().granted().expect("a lock to be lost");
    cluster.restore().await;
    held_back(&*known, "job").await;
    same(&cluster, "a snapshot was restored").await;
    // A client that knew the settings writes them again.
    cluster.etcd.ctl(&["del", SETTINGS]).await.unwrap();
    assert_eq!(known.identity().await.unwrap(), identity);
    same(&cluster, "the settings were lost").await;
}

/// A client that did not know the lost settings writes those of a new store, and so changes the
/// store for all clients.
#[tokio::test(flavor = "multi_thread")]
async fn lost_settings_that_a_new_client_replaces_make_another_store() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let known = connect(address, "10s").await;
    let before = known.identity().await.unwrap();
    etcd.ctl(&["del", SETTINGS]).await.unwrap();
    let fresh = identity(address).await;
    assert_ne!(fresh, before);
    assert_eq!(known.identity().await.unwrap(), fresh);
}

/// A snapshot contains the settings. With other flags, the copy has another cluster id.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_with_other_flags_is_another_store() {
    let original = Cluster::start(1).await;
    let identity = original.connect().await.identity().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot");
    original.etcd.save_snapshot(&snapshot).await.unwrap();
    let mut copy = single().await;
    copy.restore_snapshot(&snapshot).await.unwrap();
    let other = connect(copy.endpoints()[0], "10s").await;
    assert_ne!(other.identity().await.unwrap(), identity);
    let [one, two] = [settings(&original.etcd).await, settings(&copy).await];
    assert!(
        one["store"].is_u64() && one["store"] == two["store"],
        "the number was not in the snapshot"
    );
}

/// Records of a running migration contain the names of their stores, so settings without a number
/// never get one.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_a_number_keeps_the_name_that_it_had() {
    let mut cluster = Cluster::start(1).await;
    let mut record = settings(&cluster.etcd).await;
    assert!(record.as_object_mut().unwrap().remove("store").is_some(), "{record}");
    cluster.etcd.ctl(&["put", SETTINGS, &record.to_string()]).await.unwrap();
    let id = cluster_id(&cluster.etcd).await;
    let name = format!("etcd:{id:016x}:leasehold/");
    let known = cluster.connect().await;
    assert_eq!(known.identity().await.unwrap(), name);
    let longest_lease = Some(LONGEST);
    let init = Init::new().with_first_use(true).with_longest_lease(longest_lease);
    known.init(&init).await.unwrap();
    cluster.save().await;
    known.try_acquire(&request("job")).await.unwrap().granted().expect("a lock to be lost");
    cluster.restore().await;
    held_back(&*known, "job").await;
    for store in [&known, &cluster.connect().await] {
        assert_eq!(store.identity().await.unwrap(), name);
    }
}
