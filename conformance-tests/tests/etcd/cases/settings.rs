//! What a first use ends: what was there before it, and nothing that began since.

use std::time::Duration;

use conformance_tests::kit::Streams;
use lock_core::{Backend as _, Init};

use super::{PATIENCE, open, pair, start};
use crate::store::EtcdBackend;

const FIRST_USE: Init = Init {
    first_use: true,
    restored: false,
    longest_lease: None,
    quarantine: None,
    reset_tokens: false,
};

/// A changed longest lease waits the old one out.
async fn begin_quarantine(store: &EtcdBackend, longest: u64) {
    let longest_lease = Some(Duration::from_secs(longest));
    let settings = store.init(&Init { longest_lease, ..Init::default() }).await.unwrap();
    assert!(settings.grants_in > Duration::ZERO, "there is no quarantine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_use_that_is_tried_again_ends_no_later_quarantine() {
    let (_etcd, [one, other]) = pair().await;
    let before = one.begun(&one.pass().await.unwrap()).await.unwrap();
    begin_quarantine(&other, 20).await;
    one.history.doubt();
    assert!(one.put_set_up(&FIRST_USE, before).await.unwrap());
    assert!(other.quarantine().await.unwrap().is_some(), "it was ended");
    // What it knows of is ended.
    one.init(&FIRST_USE).await.unwrap();
    assert!(other.quarantine().await.unwrap().is_none(), "it goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_use_ends_no_quarantine_that_it_has_not_seen() {
    let etcd = start().await;
    let streams = Streams::start(etcd.endpoints()[0]).await.unwrap();
    let (one, other) = (open(streams.address()).await, open(etcd.endpoints()[0]).await);
    begin_quarantine(&other, 20).await;
    // The order to delete the key, as it stands in a transaction: tags, lengths, the key.
    streams.hold_next("Txn", "\u{1a}!\n\u{1f}leasehold/%leasehold/quarantine");
    let opening = tokio::spawn(async move { one.init(&FIRST_USE).await });
    let held = async {
        while !streams.holds("Txn") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, held).await.expect("an order to end it");
    begin_quarantine(&other, 25).await;
    assert!(streams.deliver("Txn").await);
    let _ = opening.await.unwrap();
    assert!(other.quarantine().await.unwrap().is_some(), "it was ended");
}
