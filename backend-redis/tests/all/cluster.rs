//! A Redis Cluster whose masters die. Each test asserts that its fault happened.

use std::time::{Duration, Instant};

use conformance_tests::history::{ALL_RULES, Recorder, assert_clean};
use lock_core::{Env as _, ErrorKind, LockClient, Renewal, SystemEnv};
use servers::{RedisCluster, RedisOptions, Server as _, wait::until};

use crate::support::{
    calls,
    clusters::{BUCKET, cluster, deafen_replica, fail_over, owner, queued, taken_over, url},
    connect, connect_soon, first_use, granted,
    holders::hold,
    name,
    permissions::documented_acl,
    quarantined, renewed, request,
    shared_cases::{assert_permitted_no_more, use_every_operation},
};

const SOON: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn after_a_failover_that_lost_a_held_lock_there_is_no_second_holder_also_where_its_slot_moved()
 {
    let options = "longest_lease=3s";
    let mut cluster = cluster(1, options).await;
    let (slot, old) = owner(&cluster, 0).await;
    let (recorder, lease) = (Recorder::new(1), Duration::from_secs(3));
    let first = LockClient::new(connect(&url(&cluster, options)).await);
    let other = connect(&url(&cluster, options)).await;
    assert!(other.guarantees().exclusion.holds(), "{:?}", other.guarantees());
    deafen_replica(&cluster, old).await;
    let holder = hold(&recorder, &first, lease).await;
    let token = holder.token;
    let killed = Instant::now();
    fail_over(&mut cluster, old).await;
    let promoted = killed.elapsed();
    let kept = cluster.nodes()[old + 3].cli(&["EXISTS", &format!("{BUCKET}lock:a")]).await.unwrap();
    assert_eq!(kept, "0", "the last write was not lost");
    // Before any client has asked the new master, its bucket moves on to a third node.
    let to = (old + 1) % 3;
    cluster.wait_whole().await.unwrap();
    cluster.move_slot(slot, to).await.unwrap();
    let told = quarantined(&*other).await;
    assert!(told.remaining > Duration::from_secs(3), "{told:?}");
    let next = hold(&recorder, &LockClient::new(other), lease).await;
    println!("promoted after {promoted:?}, first grant after {:?}", killed.elapsed());
    assert!(next.token > token);
    holder.lost().await;
    next.end().await;
    assert_clean(&recorder.history(), ALL_RULES);
}

#[tokio::test]
async fn a_master_that_hung_and_was_replaced_grants_nothing_when_it_resumes() {
    let options = "longest_lease=3s&timeout=1s";
    let cluster = cluster(1, "longest_lease=3s").await;
    let (_, old) = owner(&cluster, 0).await;
    let (recorder, lease) = (Recorder::new(1), Duration::from_secs(3));
    let first = LockClient::new(connect_soon(&url(&cluster, options)).await);
    let second = LockClient::new(connect_soon(&url(&cluster, options)).await);
    let holder = hold(&recorder, &first, lease).await;
    let token = holder.token;
    cluster.nodes()[old].pause().unwrap();
    taken_over(&cluster, old).await;
    let waiting = {
        let recorder = recorder.clone();
        tokio::spawn(async move { hold(&recorder, &second, lease).await })
    };
    cluster.nodes()[old].resume().unwrap();
    until("the old master to follow", SOON, || async {
        Ok((cluster.nodes()[old].info("role").await? == "slave").then_some(()))
    })
    .await
    .unwrap();
    holder.end().await;
    let next = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    assert!(next.token > token);
    next.end().await;
    assert_clean(&recorder.history(), ALL_RULES);
}

/// The margin of the quarantine rests on this: a master that has no contact to other nodes stops
/// writing.
#[tokio::test]
async fn an_isolated_master_stops_within_the_margin() {
    let cluster = cluster(0, "").await;
    let (_, at) = owner(&cluster, 0).await;
    let store = connect(&url(&cluster, "")).await;
    let grant = granted(&*store, &request("a", LEASE)).await;
    renewed(&*store, &[&grant]).await;
    for (other, node) in cluster.nodes().iter().enumerate() {
        if other != at {
            node.pause().unwrap();
        }
    }
    let began = Instant::now();
    let mut last = began;
    let refused = async {
        loop {
            let sent = Instant::now();
            match store.renew(&[&grant], SystemEnv.now()).await.pop().unwrap() {
                Renewal::Renewed { .. } => last = sent,
                Renewal::Unknown(error) => return error,
                other => panic!("{other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let error = tokio::time::timeout(SOON, refused).await.unwrap();
    assert!(error.to_string().contains("cannot answer now"), "{error}");
    println!("the last renewal was accepted {:?} after the others fell silent", last - began);
    // Twice the node timeout, plus the rest of the margin.
    assert!(last - began < Duration::from_secs(7), "{:?}", last - began);
    for node in cluster.nodes() {
        node.resume().unwrap();
    }
}

#[tokio::test]
async fn pushes_go_to_sharded_channels_and_a_listing_finds_every_bucket() {
    let cluster = cluster(0, "").await;
    let store = connect(&url(&cluster, "")).await;
    let names = 200;
    for number in 0..names {
        granted(&*store, &request(&format!("job {number}"), LEASE)).await;
    }
    let (mut found, mut cursor, mut pages) = (std::collections::BTreeSet::new(), None, 0);
    loop {
        let page = store.list(cursor).await.unwrap();
        found.extend(page.locks.into_iter().map(|state| state.name));
        pages += 1;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((found.len(), pages), (names, 64));
    for node in cluster.nodes() {
        assert_ne!(node.cli(&["DBSIZE"]).await.unwrap(), "0", "a node has no bucket");
    }

    let (_, at) = owner(&cluster, 0).await;
    let holder = LockClient::new(store);
    let guard = holder.lock(name("a")).acquire().await.unwrap();
    let waiter = LockClient::new(connect(&url(&cluster, "")).await);
    let waiting = tokio::spawn(async move { waiter.lock(name("a")).wait(SOON).acquire().await });
    queued(&cluster.nodes()[at]).await;
    guard.release().await.unwrap();
    let next = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
    assert!(next.is_valid());
    assert_eq!(calls(&cluster.nodes()[at], "spublish").await, 1);
    assert_eq!(calls(&cluster.nodes()[at], "publish").await, 0);
}

#[tokio::test]
async fn the_documented_permissions_are_enough_and_no_more() {
    let acl = documented_acl(include_str!("../../src/lib.rs"), "In a cluster:", "leasehold");
    let options = RedisOptions::new().line(acl);
    let cluster = RedisCluster::start(3, 0, options).await.unwrap();
    let hosts: Vec<_> = cluster.endpoints().iter().map(ToString::to_string).collect();
    let store = connect(&format!("redis+cluster://app:hunter2@{}", hosts.join(","))).await;
    use_every_operation(&*store, Some("0".into())).await;
    assert!(store.guarantees().exclusion.holds(), "{:?}", store.guarantees());
    for node in cluster.nodes() {
        assert_eq!(node.cli(&["ACL", "DRYRUN", "app", "ASKING"]).await.unwrap(), "OK");
        assert_permitted_no_more(node).await;
    }
}

/// A third of the 64 buckets are on this node. If each bucket waited alone, connecting would take
/// two time limits each, 126 s in all.
#[tokio::test]
async fn a_node_that_hangs_does_not_block_the_others() {
    // A long timeout, so that the other nodes go on as before.
    let options = RedisOptions::new().line("cluster-node-timeout 60000");
    let cluster = RedisCluster::start(3, 0, options).await.unwrap();
    first_use(&*connect(&url(&cluster, "")).await).await;
    let (_, serving) = owner(&cluster, 0).await;
    cluster.nodes()[(serving + 1) % 3].pause().unwrap();
    let began = Instant::now();
    let store = connect(&url(&cluster, "timeout=3s")).await;
    let took = began.elapsed();
    assert!(took > Duration::from_secs(3), "the node did not hang: {took:?}");
    assert!(took < Duration::from_secs(60), "{took:?}");
    granted(&*store, &request("a", LEASE)).await;
}

#[tokio::test]
async fn a_cluster_and_a_single_server_are_distinguished() {
    let cluster = cluster(0, "").await;
    // Also for the node that serves the bucket of a single server: clients of the cluster spread
    // their names over all nodes.
    for node in cluster.endpoints() {
        let error = backend_redis::connect(&format!("redis://{node}")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("redis+cluster://"), "{error}");
    }
    let single = crate::support::server().await;
    let url = format!("redis+cluster://{}", single.address());
    let error = backend_redis::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("no part of a cluster"), "{error}");
}
