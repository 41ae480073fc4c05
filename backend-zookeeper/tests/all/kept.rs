//! What stays without a session: a minimum hold.

use std::time::Duration;

use lock_core::{ReleaseOptions, ReleaseOutcome};

use crate::support::{LEASE, busy, granted, pair, plain, request, request_for, until};

/// Clients of other libraries do not know that it ends. So the client that released removes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_minimum_hold_is_removed_at_its_end_although_nobody_waits() {
    let (zookeeper, [one, other]) = pair().await;
    let client = plain(zookeeper.endpoints()[0]).await;
    // `#` has no meaning in a path.
    for (name, keep) in [("job", 30), ("brief", 1), ("a#2", 1)] {
        let keep = Duration::from_secs(keep);
        let grant = granted(&*one, &request_for(name, LEASE)).await;
        let released = one.release(&grant, ReleaseOptions::new().with_keep(keep)).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
    }
    busy(&*other, &request()).await;
    for name in ["brief", "a#2"] {
        let directory = format!("/leasehold/{name}");
        until("it is removed", async || client.list_children(&directory).await.unwrap().is_empty())
            .await;
    }
}

/// The client that released is gone. The next one that asks removes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_minimum_hold_of_a_client_that_is_gone_ends_all_the_same() {
    let (_zookeeper, [one, other]) = pair().await;
    let long = granted(&*one, &request()).await;
    let brief = granted(&*one, &request_for("brief", LEASE)).await;
    for (grant, keep) in [(&long, 30), (&brief, 1)] {
        let keep = ReleaseOptions::new().with_keep(Duration::from_secs(keep));
        one.release(grant, keep).await.unwrap();
    }
    one.close().await;
    busy(&*other, &request()).await;
    until("it ends", async || {
        let attempt = other.try_acquire(&request_for("brief", LEASE)).await;
        attempt.is_ok_and(|it| it.granted().is_some_and(|next| next.token > brief.token))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_release_leaves_a_minimum_hold() {
    let (_zookeeper, [one, other]) = pair().await;
    let grant = granted(&*one, &request()).await;
    let keep = ReleaseOptions::new().with_keep(Duration::from_secs(30));
    one.release(&grant, keep).await.unwrap();
    let again = one.release(&grant, ReleaseOptions::default()).await.unwrap();
    assert_eq!(again.outcome, ReleaseOutcome::NotHeld, "the second release has released it");
    busy(&*other, &request()).await;
}
