//! Guards, renewals and releases, mostly in simulated time.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use lock_core::{
    ClientOptions, Env as _, ErrorKind, FencingToken, LockClient, LossReason, Memory, SystemEnv,
};

use crate::support::{Fault, Stub, held, soon};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3_600);

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_too_late_is_released() {
    let stub = Stub::new();
    let client = stub.client();
    stub.hold("acquire");
    let attempt = tokio::spawn(client.lock("job").lease(SECOND).try_acquire());
    stub.reached("acquire", 1).await;
    tokio::time::sleep(2 * SECOND).await;
    stub.let_go("acquire");
    // The answer to the second attempt is in time, and the grant counts from before that attempt.
    let guard = attempt.await.unwrap().unwrap().guard().unwrap();
    assert_eq!(stub.calls("acquire"), 2, "the first grant was believed");
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_confirmed_after_the_loss_revives_nothing() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").lease(SECOND).acquire().await.unwrap();
    stub.hold("renew");
    stub.hold("release");
    soon("the loss", guard.lost()).await;
    assert!(!guard.is_valid());
    stub.let_go("renew");
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(!guard.is_valid() && guard.remaining().is_zero(), "it heals");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_can_be_asked_for_before_it_is_due() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").lease(30 * SECOND).acquire().await.unwrap();
    tokio::time::sleep(SECOND).await;
    let before = guard.remaining();
    stub.hold("renew");
    guard.renew_now();
    stub.reached("renew", 1).await;
    assert!(guard.remaining() <= before, "the time of the test stands still");
    // One that is under way is enough.
    guard.renew_now();
    stub.let_go("renew");
    while guard.remaining() <= before {
        tokio::task::yield_now().await;
    }
    assert_eq!(stub.calls("renew"), 1);
}

/// Otherwise a client would ask as fast as a store answers that confirms late.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_counts_from_long_ago_is_not_repeated_at_once() {
    let stub = Stub::new();
    tokio::time::sleep(30 * SECOND).await;
    let guard = stub.client().lock("job").lease(30 * SECOND).acquire().await.unwrap();
    *stub.late.lock().unwrap() = 15 * SECOND;
    guard.renew_now();
    stub.reached("renew", 1).await;
    // Another one gets no answer: time goes on only when no task has anything left to do.
    stub.hold("renew");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(stub.calls("renew"), 1);
    stub.let_go("renew");
    tokio::time::sleep(2 * SECOND).await;
    assert!(stub.calls("renew") > 1, "it is renewed no more");
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquire_leaves_no_lock() {
    let stub = Stub::new();
    let client = stub.client();
    stub.hold("acquire");
    let mut acquire = Box::pin(client.lock("job").acquire());
    assert!(acquire.as_mut().now_or_never().is_none());
    assert!(stub.holder("job").await.is_some(), "it was granted, and nobody has heard");
    drop(acquire);
    stub.let_go("acquire");
    assert!(stub.becomes_free("job").await, "left behind");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_answer_leaves_no_lock() {
    let stub = Stub::new();
    stub.fault("acquire", Fault::AnswerLost);
    let error = stub.client().lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(stub.becomes_free("job").await, "left behind");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_does_not_arrive_is_repeated() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").acquire().await.unwrap();
    stub.fault("release", Fault::RequestLost);
    guard.release().await.unwrap();
    assert_eq!(stub.holder("job").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_no_loss() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").lease(SECOND).acquire().await.unwrap();
    stub.fault("renew", Fault::AnswerLost);
    stub.fault("renew", Fault::RequestLost);
    tokio::time::sleep(10 * SECOND).await;
    assert!(guard.is_valid());
    assert!(stub.calls("renew") > 2, "nothing was lost");
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_shorter_than_the_lease_is_kept() {
    let stub = Stub::new();
    let lock = stub.client().lock("job").lease(20 * SECOND).hold_at_most(SECOND);
    let guard = lock.acquire().await.unwrap();
    assert!(guard.remaining() <= SECOND, "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn a_release_is_repeated_for_as_long_as_the_store_may_keep_the_lock() {
    let stub = Stub::new();
    let holder = held(&stub, "job").await;
    let client = stub.client();
    let older = tokio::spawn(client.lock("job").lease(30 * SECOND).acquire());
    stub.reached("enqueue", 1).await;
    let waiter = tokio::spawn(client.lock("job").lease(SECOND).acquire());
    tokio::time::sleep(SECOND / 100).await;
    // The younger waiter takes over the queue entry, with its longer lease.
    older.abort();
    holder.release().await.unwrap();
    let guard = soon("the waiter is served", waiter).await.unwrap().unwrap();
    // The retries take about two seconds.
    (0..9).for_each(|_| stub.fault("release", Fault::RequestLost));
    guard.release().await.unwrap();
    assert!(stub.becomes_free("job").await);
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_reported_in_time_if_the_store_hangs() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").lease(SECOND).acquire().await.unwrap();
    stub.hold("renew");
    let (token, ends) = (guard.cancellation_token(), stub.env.now() + guard.remaining());
    soon("the loss", token.cancelled()).await;
    let late = stub.env.now().since(ends);
    assert!(late < SECOND / 10, "told {late:?} late");
}

#[test]
fn a_loss_is_reported_in_time_if_the_renewers_runtime_stalls() {
    let stalled = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lease = Duration::from_millis(300);
    let client = LockClient::new(Arc::new(Memory::new()));
    let guard = stalled.block_on(client.lock("job").lease(lease).acquire()).unwrap();
    // The renewer's runtime is not driven any more.
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let told = async { tokio::time::timeout(Duration::from_secs(20), guard.lost()).await };
    let reason = other.block_on(told).expect("told by an alarm of its own");
    assert_eq!(reason, LossReason::Expired);
}

#[test]
fn a_guard_reads_the_clock_itself() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lease = Duration::from_millis(300);
    let client = LockClient::new(Arc::new(Memory::new()));
    let guard = runtime.block_on(client.lock("job").lease(lease).acquire()).unwrap();
    let began = SystemEnv.now();
    // Nothing runs.
    while SystemEnv.now().since(began) < lease {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_sends_nothing_to_the_store() {
    let stub = Stub::new();
    let client = stub.client();
    client.close().await;
    for error in [
        client.lock("job").try_acquire().await.unwrap_err(),
        client.lock("job").acquire().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    assert_eq!(stub.calls("acquire"), 0);
}

#[tokio::test(start_paused = true)]
async fn close_ends_all_waits_at_once() {
    let stub = Stub::new();
    let _holder = held(&stub, "job").await;
    *stub.retry_after.lock().unwrap() = Some(LONG);
    let client = stub.client();
    let waiter = tokio::spawn(client.lock("job").acquire());
    stub.reached("enqueue", 1).await;
    let began = stub.env.now();
    client.close().await;
    let error = waiter.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert_eq!(stub.env.now().since(began), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn each_wait_of_close_ends_after_the_call_timeout() {
    let stub = Stub::new();
    let options = ClientOptions::new().with_call_timeout(SECOND);
    let client = stub.client_with(options);
    let _guard = client.lock("held").acquire().await.unwrap();
    stub.hold("acquire");
    stub.hold("release");
    let mut acquire = Box::pin(client.lock("job").acquire());
    assert!(acquire.as_mut().now_or_never().is_none());
    let began = stub.env.now();
    soon("close", client.close()).await;
    // Once for what is in flight, once for the releases.
    assert!(stub.env.now().since(began) <= 2 * SECOND + SECOND / 10);
}

#[tokio::test(start_paused = true)]
async fn tokens_rise_where_the_clock_stands_still() {
    let stub = Stub::new();
    let client = stub.client();
    let mut last = FencingToken::ZERO;
    for _ in 0..10 {
        // No time passes, and each release forgets the name.
        let guard = client.lock("job").acquire().await.unwrap();
        assert!(guard.token() > last, "{} after {last}", guard.token());
        last = guard.token();
        guard.release().await.unwrap();
    }
}
