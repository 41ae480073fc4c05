//! Any of several locks.

use std::time::Duration;

use futures_util::{FutureExt as _, future::join_all};
use lock_core::{Blocked, ErrorKind, any};

use super::{SECOND, is_untouched};
use crate::support::Stub;

#[tokio::test(start_paused = true)]
async fn any_takes_the_first_that_is_free_and_touches_no_other() {
    let stub = Stub::new();
    let client = stub.client();
    let busy = stub.other().lock("a").acquire().await.unwrap();
    let guard = any(["a", "b", "c"].map(|name| client.lock(name))).acquire().await.unwrap();
    assert_eq!(guard.name().as_str(), "b");
    assert!(is_untouched(&stub, "c").await);
    assert_eq!(stub.calls("enqueue"), 0);
    drop(busy);
    let error = any([]).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[tokio::test(start_paused = true)]
async fn any_waits_in_every_queue_and_leaves_nothing_in_the_others() {
    let stub = Stub::new();
    let names = ["a", "b", "c", "d"];
    let other = stub.other();
    let mut held = join_all(names.map(|name| other.lock(name).acquire())).await;
    let client = stub.client();
    // A minimum hold counts for the one that is kept, not for one that is given back.
    let locks = names.map(|name| client.lock(name).at_least(20 * SECOND));
    let error = any(locks.clone()).wait(SECOND).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(matches!(error.blocked(), Some(Blocked::Busy(_))), "{error:?}");
    let waiting = tokio::spawn(any(locks).acquire());
    stub.reached("enqueue", 8).await;
    // Two at once: one is kept.
    drop(held.split_off(2));
    let guard = waiting.await.unwrap().unwrap();
    let other = if guard.name().as_str() == "c" { "d" } else { "c" };
    assert!(is_untouched(&stub, other).await, "{other} is kept");
    drop(held);
    assert!(is_untouched(&stub, "a").await && is_untouched(&stub, "b").await);
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_any_leaves_nothing() {
    let stub = Stub::new();
    let held = stub.other().lock("a").acquire().await.unwrap();
    let client = stub.client();
    let mut waiting = Box::pin(any([client.lock("a")]).acquire());
    for _ in 0..100 {
        assert!(waiting.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    stub.reached("enqueue", 1).await;
    drop(waiting);
    drop(held);
    assert!(is_untouched(&stub, "a").await);
}

#[tokio::test(start_paused = true)]
async fn any_makes_one_attempt_for_each_where_it_does_not_wait() {
    let stub = Stub::new();
    let client = stub.client();
    let at_once = || any(["a", "b"].map(|name| client.lock(name))).wait(Duration::ZERO);
    // Answers take a while, as over a network.
    stub.hold("acquire");
    let attempt = tokio::spawn(at_once().acquire());
    stub.reached("acquire", 1).await;
    tokio::time::sleep(SECOND).await;
    stub.let_go("acquire");
    let first = attempt.await.unwrap().unwrap();
    assert_eq!(first.name().as_str(), "a");
    let second = at_once().acquire().await.unwrap();
    assert_eq!(second.name().as_str(), "b");
    let error = at_once().acquire().await.unwrap_err();
    assert!(matches!(error.blocked(), Some(Blocked::Busy(_))), "{error:?}");
    assert_eq!(stub.calls("enqueue"), 0);
}
