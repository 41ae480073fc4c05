//! A single stream hangs without an error, while all other calls work.

use std::time::Duration;

use lock_core::{Env as _, Grant, LockClient, Renewal, SystemEnv};

use crate::support::{
    WAIT, granted, hands_over, held_and_waited_for, renewed, request_for, streamed, until,
};

/// A follower forwards keepalives to the leader one by one. With many locks the last answer takes
/// seconds, although the stream works all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_keepalive_stream_is_not_given_up() {
    let (_etcd, streams, [_, backend]) = streamed("60s").await;
    let mut held: Vec<Grant> = Vec::new();
    for number in 0..20 {
        held.push(granted(&*backend, &request_for(&format!("job {number}"))).await);
    }
    let held: Vec<&Grant> = held.iter().collect();
    // Together they take longer than a stream may be silent, each far less.
    streams.slow("LeaseKeepAlive", Duration::from_millis(100));
    let began = SystemEnv.now();
    let renewed = backend.renew(&held, began).await;
    let took = SystemEnv.now().since(began);
    let other = renewed.iter().find(|it| !matches!(it, Renewal::Renewed { .. }));
    assert!(other.is_none(), "{other:?} after {took:?}");
    assert!(
        took > Duration::from_secs(1),
        "{} locks were renewed in {took:?}: too few",
        held.len()
    );
    assert_eq!(streams.opened("LeaseKeepAlive"), 1, "a busy stream was given up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_keepalive_stream_is_detected_and_no_lock_is_lost() {
    let (_etcd, streams, [_, backend]) = streamed("5s").await;
    let client = LockClient::new(backend);
    let lease = Duration::from_secs(6);
    let guard = client.lock("job").lease(lease).acquire().await.unwrap();
    until("the first renewal", async || streams.opened("LeaseKeepAlive") > 0).await;
    streams.stick("LeaseKeepAlive");
    // Only over another stream can it be renewed.
    renewed(&guard, SystemEnv.now(), lease).await;
    assert!(streams.swallowed("LeaseKeepAlive") > 0, "the fault did not happen");
    assert!(streams.opened("LeaseKeepAlive") > 1);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_watch_delays_nobody_for_long_and_is_replaced() {
    let (_etcd, streams, [holder, waiter]) = streamed("5s").await;
    let (guard, waiting) = held_and_waited_for(holder, waiter.clone()).await;
    until("a watch", async || streams.opened("Watch") > 0).await;
    // It is silent, but it answers the progress request: a healthy watch stays. An unanswered one
    // is given up after 6 s.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(streams.opened("Watch"), 1, "a healthy watch was given up");
    streams.stick("Watch");
    // The waiter notices the release by polling.
    let next = hands_over(guard, waiting).await;
    assert!(streams.swallowed("Watch") > 0, "the fault did not happen");

    // A new waiter makes the client open another watch.
    let waiting = tokio::spawn(async move {
        LockClient::new(waiter).lock("job").wait(WAIT * 3).acquire().await.unwrap()
    });
    until("another watch", async || streams.opened("Watch") > 1).await;
    drop(hands_over(next, waiting).await);
}
