//! Clusters, and faults of their masters.

use std::time::Duration;

use servers::{Redis, RedisCluster, RedisOptions, Server as _, wait::until};

use super::{connect, first_use};

/// The slot of the bucket of the lock `a`.
pub(crate) const BUCKET: &str = "leasehold:{0}:";

pub(crate) fn url(cluster: &RedisCluster, options: &str) -> String {
    let hosts: Vec<_> = cluster.endpoints().iter().map(ToString::to_string).collect();
    format!("redis+cluster://{}?{options}", hosts.join(","))
}

/// Three masters. The store grants at once.
pub(crate) async fn cluster(replicas: usize, url_options: &str) -> RedisCluster {
    // On a busy machine one second is not enough to answer a ping.
    let options = RedisOptions::new().line("cluster-node-timeout 1500");
    let cluster = RedisCluster::start(3, replicas, options).await.unwrap();
    first_use(&*connect(&url(&cluster, url_options)).await).await;
    cluster
}

/// The slot of the lock `a`, and the index of the node that serves it, as `asked` sees it.
pub(crate) async fn owner(cluster: &RedisCluster, asked: usize) -> (u16, usize) {
    let slot = cluster.slot_of(BUCKET).await.unwrap();
    (slot, cluster.owner_of(slot, asked).await.unwrap())
}

/// Pauses the replica of the master `old`, so that the next writes are lost with the master.
pub(crate) async fn deafen_replica(cluster: &RedisCluster, old: usize) {
    cluster.nodes()[old + 3].pause().unwrap();
    // Otherwise it would later read what waits in its socket.
    let killed = cluster.nodes()[old].cli(&["CLIENT", "KILL", "TYPE", "replica"]).await.unwrap();
    assert_eq!(killed, "1", "the replica was not in touch");
}

/// Kills the master, resumes its replica, and waits until that has taken over.
pub(crate) async fn fail_over(cluster: &mut RedisCluster, old: usize) {
    cluster.node_mut(old).kill().unwrap();
    cluster.nodes()[old + 3].resume().unwrap();
    taken_over(cluster, old).await;
}

pub(crate) async fn taken_over(cluster: &RedisCluster, old: usize) {
    let asked = (old + 1) % 3;
    let slot = cluster.slot_of(BUCKET).await.unwrap();
    until("a replica to take over", Duration::from_secs(60), || async {
        // For a moment no node may serve it.
        let now = cluster.owner_of(slot, asked).await.ok();
        Ok((now == Some(old + 3)).then_some(()))
    })
    .await
    .unwrap();
}

/// Waits until one waiter for `a` is queued on this node.
pub(crate) async fn queued(node: &Redis) {
    until("somebody to wait", Duration::from_secs(60), || async {
        let length = node.cli(&["LLEN", &format!("{BUCKET}queue:a")]).await?;
        Ok((length == "1").then_some(()))
    })
    .await
    .unwrap();
}
