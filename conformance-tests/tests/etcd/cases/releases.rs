//! What a release keeps, and what it says.

use std::time::Duration;

use conformance_tests::kit::Streams;
use lock_core::{Backend as _, Enqueued, ErrorKind, FencingToken, Outcome, Release};

use super::{LEASE, granted, name, open, open_within, pair, release, request, start};

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_kept_has_the_token_that_it_was_raised_to() {
    let (_etcd, [one, _]) = pair().await;
    let grant = granted(&one, &request("job")).await;
    let raised = FencingToken::new(grant.token.get() + 1_000_000).unwrap();
    one.raise(&grant, raised).await.unwrap();
    one.release(&grant, Release { keep: Some(LEASE), ..Release::default() }).await.unwrap();
    let told = one.inspect(&name("job")).await.unwrap().expect("it is kept");
    assert_eq!(told.token, raised);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_what_was_lost_is_none_however_its_next_request_fares() {
    let etcd = start().await;
    let address = etcd.endpoints()[0];
    let streams = Streams::start(address).await.unwrap();
    let (direct, behind) =
        (open(address).await, open_within(streams.address(), Duration::from_secs(2)).await);
    let held = granted(&behind, &request("job")).await;
    release(&direct, &held).await;
    let next = request("job");
    streams.hold_next("Txn", "\"granted\":");
    let both = Release { next: Some(&next), ..Release::default() };
    let error = behind.release(&held, both).await.expect_err("the request is held up");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "it is taken for given back: {error}");
    assert!(streams.deliver("Txn").await, "the request was answered");
    let released = behind.release(&held, both).await.unwrap();
    assert_eq!(released.outcome, Outcome::NotHeld);
    assert!(matches!(released.next, Some(Enqueued::Granted(_))), "{released:?}");
}
