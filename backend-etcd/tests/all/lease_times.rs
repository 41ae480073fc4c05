//! The shortest lease that etcd grants, on which the shortest leases in tests rest.

use conformance_tests::kit::{Etcd, EtcdOptions};

use crate::support::single;

/// Asks for one second and returns what the server set, as `etcdctl` tells it.
async fn least(etcd: &Etcd) -> String {
    let said = etcd.ctl(&["lease", "grant", "1"]).await.unwrap();
    let (_, ttl) = said.split_once("TTL(").unwrap();
    ttl.split_once(')').unwrap().0.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smallest_lease_is_one_and_a_half_elections_in_whole_seconds() {
    let fast = single().await;
    assert_eq!(least(&fast).await, "1s");
    let slow = EtcdOptions::new().flag("--heartbeat-interval=100").flag("--election-timeout=1000");
    let slow = Etcd::single(slow).await.unwrap();
    assert_eq!(least(&slow).await, "2s");
    let three = Etcd::three(EtcdOptions::new()).await.unwrap();
    assert_eq!(least(&three).await, "1s");
}
