//! What stays without a session: a minimum hold, and a detached lock.

use std::time::Duration;

use lock_core::{ReleaseOptions, ReleaseOutcome};

use crate::support::{busy, granted, monitored, name, pair, release, request, until};

/// Clients of other libraries do not know that it ends. So the client that released removes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_minimum_hold_is_removed_at_its_end_although_nobody_waits() {
    let (zookeeper, [one, other]) = pair().await;
    let grant = granted(&*one, &request()).await;
    let keep = Duration::from_secs(1);
    let released = one.release(&grant, ReleaseOptions::new().with_keep(keep)).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    assert!(busy(&*other, &request()).await.retry_after <= keep);
    let nodes = monitored(&zookeeper, "zk_znode_count").await;
    until("it is removed", async || monitored(&zookeeper, "zk_znode_count").await < nodes).await;
    assert!(other.inspect(&name()).await.unwrap().unwrap().holder.is_none());
}

/// The client that released is gone. The next one that asks removes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_minimum_hold_of_a_client_that_is_gone_ends_all_the_same() {
    let (_zookeeper, [one, other]) = pair().await;
    let grant = granted(&*one, &request()).await;
    let keep = ReleaseOptions::new().with_keep(Duration::from_secs(1));
    one.release(&grant, keep).await.unwrap();
    one.close().await;
    busy(&*other, &request()).await;
    until("it ends", async || match other.try_acquire(&request()).await.unwrap().granted() {
        Some(next) => {
            assert!(next.token > grant.token);
            release(&*other, &next).await;
            true
        }
        None => false,
    })
    .await;
}
