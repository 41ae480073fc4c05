//! A master that is isolated, together with some clients, from the rest of its cluster: its cluster
//! bus is really cut, and it goes on. SIGSTOP would show less: a stopped master grants nothing.

use std::time::{Duration, Instant};

use conformance_tests::history::{ALL_RULES, Recorder, Rule, assert_clean, check};
use lock_core::{Attempt, LockClient, LossReason};
use redis::aio::MultiplexedConnection;
use servers::{RedisCluster, RedisOptions, Server as _, wait::until};

use crate::support::{
    clusters::{owner, taken_over},
    connect,
    direct::{said, say, talk_to},
    first_use,
    holders::hold,
    request,
};

const SOON: Duration = Duration::from_secs(60);

/// Three masters with replicas, a user for the clients of each side, and a cluster bus that can be
/// cut.
async fn divisible(replicas: usize, options: &str) -> RedisCluster {
    let redis = RedisOptions::new()
        .line("cluster-node-timeout 1500")
        .line("user inside on >pass ~* &* +@all")
        .line("user outside on >pass ~* &* +@all");
    let cluster = RedisCluster::start_divisible(3, replicas, redis).await.unwrap();
    first_use(&*connect(&url(&cluster, "outside", options)).await).await;
    cluster
}

fn url(cluster: &RedisCluster, user: &str, options: &str) -> String {
    let hosts: Vec<_> = cluster.endpoints().iter().map(ToString::to_string).collect();
    format!("redis+cluster://{user}:pass@{}?{options}", hosts.join(","))
}

/// Takes the replicas from a master. Clients that are connected stay, and no new connection is
/// possible.
async fn take_replicas(cluster: &RedisCluster, old: usize) -> MultiplexedConnection {
    let mut master = talk_to(cluster.nodes()[old].address()).await;
    // It no longer listens on any address.
    said(&mut master, &["CONFIG", "SET", "bind", ""]).await;
    let killed = said(&mut master, &["CLIENT", "KILL", "TYPE", "replica"]).await;
    assert_ne!(killed, "0", "no replica was in touch");
    assert!(tokio::net::TcpStream::connect(cluster.nodes()[old].address()).await.is_err());
    master
}

/// Leaves it alone with its clients of the user `inside`.
async fn cut_off(cluster: &RedisCluster, old: usize, master: &mut MultiplexedConnection) {
    let killed = said(master, &["CLIENT", "KILL", "USER", "outside"]).await;
    assert_ne!(killed, "0", "no client of the other side was connected");
    for (at, node) in cluster.nodes().iter().enumerate().filter(|(at, _)| *at != old) {
        assert_eq!(node.cli(&["ACL", "DELUSER", "inside"]).await.unwrap(), "1", "{at}");
    }
    let cut = cluster.divide(&[old]).await.unwrap();
    assert!(cut >= cluster.nodes().len() as u64 - 1, "{cut} links were cut");
}

struct Partitioned {
    recorder: Recorder,
    loss: Option<LossReason>,
}

/// A holder on a master that goes on in its partition, and another on the master that replaced it.
/// The replicas lack the first grant, unless they must acknowledge it.
async fn partition(replicas: usize, options: &str, lease: u64, promised: bool) -> Partitioned {
    let (recorder, lease) = (Recorder::new(1), Duration::from_secs(lease));
    let cluster = divisible(replicas, options).await;
    let (_, old) = owner(&cluster, 0).await;
    let inside = LockClient::new(connect(&url(&cluster, "inside", options)).await);
    let outside = LockClient::new(connect(&url(&cluster, "outside", options)).await);
    let told = outside.guarantees().exclusion.to_string();
    assert_eq!(outside.guarantees().exclusion.holds(), promised, "{told}");
    let (mut master, holder);
    if options.contains("wait_replicas") {
        holder = hold(&recorder, &inside, lease).await;
        master = take_replicas(&cluster, old).await;
    } else {
        master = take_replicas(&cluster, old).await;
        holder = hold(&recorder, &inside, lease).await;
    }
    cut_off(&cluster, old, &mut master).await;
    let cut = Instant::now();
    let asked = (old + 1) % 3;
    until("a replica to take over", SOON, || async {
        Ok((owner(&cluster, asked).await.1 != old).then_some(()))
    })
    .await
    .unwrap();
    let promoted = cut.elapsed();
    let next = hold(&recorder, &outside, lease).await;
    println!("{options:?}: promoted after {promoted:?}, first grant after {:?}", cut.elapsed());
    assert!(next.token > holder.token);

    // It is alive and still a master, has tried to reconnect, and accepts no writes.
    let role = said(&mut master, &["INFO", "replication"]).await;
    assert!(role.contains("role:master"), "{role}");
    assert!(cluster.links().unwrap().refused > 0, "nobody tried to mend the bus");
    let refused = say(&mut master, &["SET", "leasehold:{0}:probe", "1"]).await.unwrap_err();
    assert_eq!(refused.code(), Some("CLUSTERDOWN"), "{refused}");
    // Both record how long they rely on the lock.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let loss = holder.end().await;
    next.end().await;

    cluster.divide(&[]).await.unwrap();
    let mended = async {
        while !said(&mut master, &["INFO", "replication"]).await.contains("role:slave") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, mended).await.expect("the old master did not follow the new one");
    Partitioned { recorder, loss }
}

#[tokio::test]
async fn a_master_cut_off_from_its_cluster_stops_before_the_new_one_grants() {
    let seen = partition(1, "longest_lease=3s", 3, true).await;
    assert_clean(&seen.recorder.history(), ALL_RULES);
    assert!(seen.loss.is_some(), "the holder in the partition still believes");
}

#[tokio::test]
async fn a_master_cut_off_whose_replicas_acknowledge_nothing_keeps_no_holder() {
    let seen = partition(2, "longest_lease=3s&wait_replicas=1&wait_timeout=4s", 3, true).await;
    assert_clean(&seen.recorder.history(), ALL_RULES);
    assert!(seen.loss.is_some(), "the holder in the partition still believes");
}

#[tokio::test]
async fn with_the_quarantine_off_there_is_a_holder_on_each_side() {
    let seen = partition(1, "quarantine=off&longest_lease=2m", 120, false).await;
    assert_eq!(seen.loss, None, "the holder in the partition was told");
    let found = check(&seen.recorder.history(), ALL_RULES);
    assert!(found.iter().any(|violation| violation.rule == Rule::Exclusion), "{found:?}");
    assert!(found.iter().all(|violation| violation.rule == Rule::Exclusion), "{found:?}");
}

/// A client that reaches both sides does not stay with the one that only refuses.
#[tokio::test]
async fn a_client_leaves_a_master_that_its_cluster_has_lost() {
    let cluster = divisible(1, "").await;
    let (_, old) = owner(&cluster, 0).await;
    let store = connect(&url(&cluster, "inside", "")).await;
    crate::support::granted(&*store, &request("a", Duration::from_millis(100))).await;
    assert!(cluster.divide(&[old]).await.unwrap() >= 5);
    taken_over(&cluster, old).await;
    until("the client to leave the old master", SOON, || async {
        let answer = store.try_acquire(&request("a", Duration::from_millis(100))).await;
        Ok(matches!(answer, Ok(Attempt::Quarantined(_))).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(cluster.nodes()[old].info("role").await.unwrap(), "master");
}
