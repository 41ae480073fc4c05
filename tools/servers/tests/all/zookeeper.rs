//! The kit's ZooKeeper.

use std::time::Duration;

use servers::{Mode, Server as _, ZooKeeper, ZooKeeperOptions};

const WAIT: Duration = Duration::from_secs(30);

/// The zxid of a member, as `srvr` shows it: the epoch and the counter.
async fn zxid(zookeeper: &ZooKeeper, index: usize) -> (u64, u64) {
    let answer = zookeeper.members()[index].ask("srvr").await.unwrap();
    let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x")).unwrap();
    let zxid = u64::from_str_radix(zxid, 16).unwrap();
    (zxid >> 32, zxid & 0xffff_ffff)
}

#[tokio::test]
async fn a_single_server_starts_again_with_its_data() {
    let mut zookeeper = ZooKeeper::single(ZooKeeperOptions::new()).await.unwrap();
    assert_eq!(zookeeper.members()[0].mode().await.as_deref(), Some("standalone"));
    let before = zookeeper.members()[0].process().pid().unwrap();
    zookeeper.save_data().unwrap();
    zookeeper.restore_data().await.unwrap();
    assert_ne!(zookeeper.members()[0].process().pid().unwrap(), before);
    assert_eq!(zxid(&zookeeper, 0).await.0, 0);
}

#[tokio::test]
async fn a_follower_is_cut_off_from_the_leader() {
    let options = ZooKeeperOptions::new().peers_by_proxy();
    let mut zookeeper = ZooKeeper::three(options).await.unwrap();
    let leader = zookeeper.leader().await.unwrap();
    let follower = (leader + 1) % 3;
    let link = zookeeper.link(follower, leader).unwrap();
    assert!(link.counters().open > 0, "the follower does not use its link");
    link.set(Mode::BlackHole).await.unwrap();
    link.until("a lost ping", WAIT, |now| now.to_client.swallowed > 0).await.unwrap();
    // After `syncLimit` it serves no longer.
    let alone = async {
        while zookeeper.members()[follower].mode().await.is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(WAIT, alone).await.expect("it stops serving");
    link.set(Mode::Pass).await.unwrap();
    zookeeper.wait_healthy().await.unwrap();
}

#[tokio::test]
async fn an_election_opens_a_new_epoch() {
    let mut zookeeper = ZooKeeper::three(ZooKeeperOptions::new()).await.unwrap();
    let leader = zookeeper.leader().await.unwrap();
    let before = zxid(&zookeeper, leader).await.0;
    zookeeper.member_mut(leader).kill().unwrap();
    let next = zookeeper.leader().await.unwrap();
    assert_ne!(next, leader);
    assert!(zxid(&zookeeper, next).await.0 > before);
}
