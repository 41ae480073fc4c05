//! An attempt to wait that had no answer, and its repeats.

use conformance_tests::kit::{Mode, Proxy};
use lock_core::{Attempt, Enqueued, Init, LockName};

use crate::support::{LEASE, connect, name, request, single};

/// The first attempt has made its entry, and its answer is lost; the repeat meets a quarantine. No other key may live
/// by the entry's lease, or it would end with the entry.
#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_a_place_that_is_not_known_serves_nobody_else() {
    let etcd = single().await;
    let direct = connect(etcd.endpoints()[0], "10s").await;
    let held = direct.try_acquire(&request()).await.unwrap().granted().unwrap();
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let behind = connect(proxy.address(), "1s").await;
    // The refused attempt puts its lease into the pool.
    let refused = behind.try_acquire(&request()).await.unwrap();
    assert!(matches!(refused, Attempt::Busy(_)), "{refused:?}");

    proxy.set(Mode::HalfCut).await.unwrap();
    let lost = request();
    let error = behind.enqueue(&lost).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert!(proxy.counters().to_client.swallowed > 0, "the fault did not happen");
    proxy.set(Mode::Pass).await.unwrap();
    let waiting = async || direct.inspect(&name()).await.unwrap().unwrap().waiting;
    assert_eq!(waiting().await, Some(1), "the lost try made no place");

    let longer = Init::new().with_longest_lease(LEASE * 2);
    direct.init(&longer).await.unwrap();
    let repeated = behind.enqueue(&lost).await.unwrap();
    assert!(matches!(repeated, Enqueued::Quarantined(_)), "{repeated:?}");
    // Ended by hand: a client that polls meanwhile would keep the lease alive.
    let ended = etcd.ctl(&["del", "leasehold/%leasehold/quarantine"]).await.unwrap();
    assert_eq!(ended.trim(), "1");

    let mut other = request();
    other.name = LockName::new("other").unwrap();
    let grant = behind.try_acquire(&other).await.unwrap().granted().unwrap();
    // The repeat finds the entry of the first attempt, and makes no second one.
    let again = behind.enqueue(&lost).await.unwrap();
    assert!(matches!(again, Enqueued::Waiting(..)), "{again:?}");
    assert_eq!(waiting().await, Some(1));
    drop(again);
    behind.abandon(&lost).await.unwrap();
    assert_eq!(waiting().await, Some(0));
    let state = direct.inspect(&other.name).await.unwrap().expect("the other lock is still held");
    assert_eq!((state.holder.unwrap().owner, state.token), (other.owner, grant.token));
    assert!(grant.token > held.token);
}
