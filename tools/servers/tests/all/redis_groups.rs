//! The kit's Redis with sentinels, and Redis Cluster.

use std::time::Instant;

use servers::{RedisCluster, RedisOptions, Sentinels, Server as _};

#[tokio::test]
async fn sentinels_fail_over_when_the_master_dies() {
    let start = Instant::now();
    let mut group = Sentinels::start(2, RedisOptions::new()).await.unwrap();
    println!("sentinels up in {:?}", start.elapsed());
    assert_eq!(group.endpoints().len(), 3);
    let old = group.master().await.unwrap();
    assert_eq!(old, 0);
    group.servers()[0].cli(&["SET", "k", "v"]).await.unwrap();
    assert_eq!(group.servers()[0].cli(&["WAIT", "2", "5000"]).await.unwrap(), "2");

    let start = Instant::now();
    group.server_mut(old).kill().unwrap();
    let new = group.failed_over(old).await.unwrap();
    println!("failed over in {:?}", start.elapsed());
    assert_ne!(new, old);
    assert_eq!(group.servers()[new].cli(&["GET", "k"]).await.unwrap(), "v");
    assert_eq!(group.servers()[new].cli(&["SET", "k", "w"]).await.unwrap(), "OK");
}

#[tokio::test]
async fn a_cluster_serves_all_slots_and_moves_one() {
    let start = Instant::now();
    let cluster = RedisCluster::start(3, 0, RedisOptions::new()).await.unwrap();
    println!("cluster of 3 up in {:?}", start.elapsed());
    let slot = cluster.slot_of("{job}lock").await.unwrap();
    assert_eq!(slot, cluster.slot_of("{job}queue").await.unwrap());
    let from = cluster.owner_of(slot, 0).await.unwrap();
    let to = (from + 1) % 3;
    let owner = &cluster.nodes()[from];
    assert_eq!(owner.cli(&["SET", "{job}lock", "v"]).await.unwrap(), "OK");
    assert!(cluster.nodes()[to].cli(&["GET", "{job}lock"]).await.unwrap().starts_with("MOVED"));

    cluster.move_slot(slot, to).await.unwrap();
    for asked in 0..3 {
        assert_eq!(cluster.owner_of(slot, asked).await.unwrap(), to);
    }
    assert_eq!(cluster.nodes()[to].cli(&["GET", "{job}lock"]).await.unwrap(), "v");
    assert!(owner.cli(&["GET", "{job}lock"]).await.unwrap().starts_with("MOVED"));
}

#[tokio::test]
async fn a_replica_takes_over_when_a_cluster_master_dies() {
    let start = Instant::now();
    let mut cluster = RedisCluster::start(3, 1, RedisOptions::new()).await.unwrap();
    println!("cluster of 6 up in {:?}", start.elapsed());
    let slot = cluster.slot_of("job").await.unwrap();
    let old = cluster.owner_of(slot, 0).await.unwrap();
    let start = Instant::now();
    cluster.node_mut(old).kill().unwrap();
    let asked = (old + 1) % 3;
    let wait = "a replica to take the slots over";
    let minute = std::time::Duration::from_secs(60);
    let new = servers::wait::until(wait, minute, || async {
        // For a moment nobody may own it.
        Ok(cluster.owner_of(slot, asked).await.ok().filter(|new| *new != old))
    })
    .await
    .unwrap();
    cluster.wait_whole().await.unwrap();
    println!("taken over in {:?}", start.elapsed());
    assert_eq!(new, old + 3, "its replica");
    assert_eq!(cluster.nodes()[new].cli(&["SET", "job", "v"]).await.unwrap(), "OK");
}
