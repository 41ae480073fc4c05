//! A lock that is handed over in etcd: transactions that arrive late, and leases.

use std::sync::Arc;

use lock_core::{Backend, LossReason, ReleaseOptions, ReleaseOutcome, Renewal};

use crate::support::{granted, request, streamed, until};

/// The transaction arrives after its client has given its owner up.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_that_arrives_after_the_clean_up_changes_nothing() {
    let (_etcd, streams, [direct, behind]) = streamed("60s").await;
    let held = granted(&*direct, &request()).await;
    let late = request();
    streams.hold_next("Txn", &late.owner.to_string());
    let (store, grant, asked): (Arc<dyn Backend>, _, _) = (behind, held.clone(), late.clone());
    let call = tokio::spawn(async move { store.reown(&grant, &asked).await });
    until("the hand-over to be held up", async || streams.holds("Txn")).await;
    direct.abandon(&late).await.unwrap();
    assert!(streams.deliver("Txn").await, "there was no late request");
    assert!(call.await.unwrap().unwrap().is_none(), "it came after the clean-up");
    let renewed = direct.renew(&[&held], lock_core::Instant::default()).await;
    assert!(matches!(renewed[..], [Renewal::Renewed { .. }]), "{renewed:?}");
}

/// The former owner's client still knows its lease. That lease is gone, and the new owner's is not.
#[tokio::test(flavor = "multi_thread")]
async fn the_former_owner_neither_renews_nor_revokes_the_new_lease() {
    let (_etcd, _streams, [former, other]) = streamed("60s").await;
    let held = granted(&*former, &request()).await;
    let next = request();
    let given = other.reown(&held, &next).await.unwrap().expect("it is held");
    let renewed = former.renew(&[&held], lock_core::Instant::default()).await;
    assert!(matches!(renewed[..], [Renewal::Lost(LossReason::TakenOver)]), "{renewed:?}");
    let released = former.release(&held, ReleaseOptions::new()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld);
    // Its pool of leases ends with it.
    former.close().await;
    let renewed = other.renew(&[&given], lock_core::Instant::default()).await;
    assert!(matches!(renewed[..], [Renewal::Renewed { .. }]), "{renewed:?}");
}
