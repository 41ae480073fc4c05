//! Fences over a failover: with sentinels and in a cluster.

use std::time::Duration;

use backend_redis::Fence;
use lock_core::{ErrorKind, FenceError, FencingToken};
use servers::{Redis, RedisOptions, Server as _, wait::until};

use crate::support::{
    clusters::{self, cluster},
    sentinels,
};

const SOON: Duration = Duration::from_secs(60);

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).unwrap()
}

fn refused(answer: Result<(), FenceError>, admitted: u64) {
    let Err(FenceError::Stale(stale)) = answer else { panic!("{answer:?}") };
    assert_eq!(stale.admitted, token(admitted));
}

/// Sets a value; a failover may be under way.
async fn set_soon(fence: &Fence, key: &str, value: &str, with: u64) -> Result<(), FenceError> {
    let setting = async {
        loop {
            match fence.set(key, value, token(with)).await {
                Err(FenceError::Store(error)) if error.is_retryable() => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                other => return other,
            }
        }
    };
    tokio::time::timeout(SOON, setting).await.unwrap()
}

#[tokio::test]
async fn with_sentinels_the_new_master_refuses_what_the_old_one_would_have() {
    let options = "wait_replicas=2&wait_timeout=4s";
    let mut group = sentinels::group(RedisOptions::new(), "").await;
    let old = group.master().await.unwrap();
    let fence = Fence::connect(&sentinels::url(&group, options)).await.unwrap();
    fence.set("report", "second", token(20)).await.unwrap();
    refused(fence.set("report", "first", token(10)).await, 20);
    // The write waits for the replicas, since each of them may be promoted.
    for server in group.servers() {
        assert_eq!(server.cli(&["GET", "report"]).await.unwrap(), "second");
    }
    let new = sentinels::fail_over(&mut group, old).await;
    let fence = Fence::connect(&sentinels::url(&group, "")).await.unwrap();
    refused(set_soon(&fence, "report", "first", 10).await, 20);
    set_soon(&fence, "report", "third", 30).await.unwrap();
    assert_eq!(group.servers()[new].cli(&["GET", "report"]).await.unwrap(), "third");
    let time_to_live = ["PTTL", "leasehold:{0}:fence:report"];
    assert_eq!(group.servers()[new].cli(&time_to_live).await.unwrap(), "-1");
}

/// Whatever the key contains, its record is in the same slot and never expires.
#[tokio::test]
async fn in_a_cluster_each_record_is_in_the_slot_of_its_key() {
    let cluster = cluster(0, "").await;
    let fence = Fence::connect(&clusters::url(&cluster, "")).await.unwrap();
    for key in ["report", "{user 1}.report", "a}b", "{}c", "a{b", "{{d}}e", "ü", ""] {
        fence.set(key, "second", token(20)).await.unwrap();
        fence.set(key, "third", token(20)).await.unwrap();
        refused(fence.set(key, "first", token(10)).await, 20);
        let slot = cluster.slot_of(key).await.unwrap();
        let node = &cluster.nodes()[cluster.owner_of(slot, 0).await.unwrap()];
        assert_eq!(node.cli(&["GET", key]).await.unwrap(), "third", "{key}");
        let slot_text = slot.to_string();
        let keys = node.cli(&["CLUSTER", "GETKEYSINSLOT", &slot_text, "100"]).await.unwrap();
        let record = keys.lines().find(|found| found.ends_with(&format!(":fence:{key}")));
        let record = record.unwrap_or_else(|| panic!("{key} in {keys}"));
        assert_eq!(node.cli(&["PTTL", record]).await.unwrap(), "-1", "{record}");
    }
}

#[tokio::test]
async fn in_a_cluster_a_fence_follows_its_key_to_another_node_and_over_a_failover() {
    let mut cluster = cluster(1, "").await;
    let (key, options) = ("report", "wait_replicas=1&wait_timeout=4s");
    let slot = cluster.slot_of(key).await.unwrap();
    let fence = Fence::connect(&clusters::url(&cluster, "")).await.unwrap();
    let acknowledged = Fence::connect(&clusters::url(&cluster, options)).await.unwrap();
    fence.set(key, "second", token(20)).await.unwrap();
    let from = cluster.owner_of(slot, 0).await.unwrap();
    let to = (from + 1) % 3;
    cluster.move_slot(slot, to).await.unwrap();
    assert_eq!(cluster.owner_of(slot, 0).await.unwrap(), to);
    refused(fence.set(key, "first", token(10)).await, 20);
    acknowledged.set(key, "third", token(30)).await.unwrap();

    // The replica that acknowledged the write takes over.
    cluster.node_mut(to).kill().unwrap();
    until("a replica to take over", SOON, || async {
        // For a moment no node may own it.
        Ok((cluster.owner_of(slot, from).await.ok() == Some(to + 3)).then_some(()))
    })
    .await
    .unwrap();
    refused(set_soon(&fence, key, "second", 20).await, 30);
    set_soon(&fence, key, "fourth", 40).await.unwrap();
    assert_eq!(value_on(&cluster.nodes()[to + 3], key).await, "fourth");
    // No replica is left to acknowledge. The write is there, and may be lost.
    let answer = acknowledged.set(key, "fifth", token(50)).await;
    let Err(FenceError::Store(error)) = answer else { panic!("{answer:?}") };
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(error.to_string().contains("a failover may lose it"), "{error}");
    assert_eq!(value_on(&cluster.nodes()[to + 3], key).await, "fifth");
}

async fn value_on(node: &Redis, key: &str) -> String {
    node.cli(&["GET", key]).await.unwrap()
}
