//! An enqueue without an answer, and its repeats.

use lock_core::{Enqueued, Init};
use servers::Mode;

use crate::support::{LEASE, busy, granted, proxied, request, request_for, waiting};

/// The first attempt makes its entry, but its answer is lost. The repeat meets a quarantine. No
/// other key may use the entry's lease, or it would end with the entry.
#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_an_unanswered_enqueue_serves_no_other_request() {
    let (etcd, proxy, [direct, behind]) = proxied("5s").await;
    let held = granted(&*direct, &request()).await;
    // The refused attempt returns its lease to the pool.
    busy(&*behind, &request()).await;

    proxy.set(Mode::HalfCut).await.unwrap();
    let lost = request();
    let error = behind.enqueue(&lost).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert!(proxy.counters().to_client.swallowed > 0, "the fault did not happen");
    proxy.set(Mode::Pass).await.unwrap();
    assert_eq!(waiting(&*direct).await, Some(1), "the lost try made no entry");

    let longer = Init::new().with_longest_lease(LEASE * 2);
    direct.init(&longer).await.unwrap();
    let repeated = behind.enqueue(&lost).await.unwrap();
    assert!(matches!(repeated, Enqueued::Quarantined(_)), "{repeated:?}");
    // The test ends the quarantine: a client that waited for its end would keep the lease alive.
    let ended = etcd.ctl(&["del", "leasehold/%leasehold/quarantine"]).await.unwrap();
    assert_eq!(ended.trim(), "1");

    let other = request_for("other");
    let grant = granted(&*behind, &other).await;
    // The repeat finds the entry of the first attempt, and makes no second one.
    let again = behind.enqueue(&lost).await.unwrap();
    assert!(matches!(again, Enqueued::Waiting(..)), "{again:?}");
    assert_eq!(waiting(&*direct).await, Some(1));
    drop(again);
    behind.abandon(&lost).await.unwrap();
    assert_eq!(waiting(&*direct).await, Some(0));
    let state = direct.inspect(&other.name).await.unwrap().expect("the other lock is still held");
    assert_eq!((state.holder.unwrap().owner, state.token), (other.owner, grant.token));
    assert!(grant.token > held.token);
}
