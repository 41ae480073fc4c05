//! All and any of several locks.

use std::time::Duration;

use futures_util::{FutureExt as _, future::join_all};
use lock_core::{Blocked, ErrorKind, LossReason, all, any};

use super::{SECOND, is_untouched};
use crate::support::Stub;

#[tokio::test(start_paused = true)]
async fn all_are_held_in_the_given_order_or_none_is() {
    let stub = Stub::new();
    let client = stub.client();
    let locks = || ["c", "a", "b"].map(|name| client.lock(name));
    // Answers are held back, so the first is the only one that was asked for.
    stub.hold("acquire");
    let acquire = tokio::spawn(all(locks()).acquire());
    stub.reached("acquire", 1).await;
    assert!(stub.holder("a").await.is_some(), "they are not taken in the order of their names");
    stub.let_go("acquire");
    let guards = acquire.await.unwrap().unwrap();
    let names: Vec<_> = guards.iter().map(|guard| guard.name().to_string()).collect();
    assert_eq!(names, ["c", "a", "b"]);
    assert!(guards.is_valid() && guards.remaining() > SECOND);
    let other = stub.other();
    let error =
        all([other.lock("d"), other.lock("b"), other.lock("0")]).wait(SECOND).acquire().await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("\"b\""), "{error}");
    assert!(is_untouched(&stub, "0").await && is_untouched(&stub, "d").await);
    guards.release().await.unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(stub.holder(name).await, None, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_while_others_are_waited_for_ends_the_wait() {
    let stub = Stub::new();
    let client = stub.client();
    let busy = stub.other().lock("b").acquire().await.unwrap();
    let short = client.lock("a").hold_at_most(SECOND);
    let error = all([short, client.lock("b")]).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(error.to_string().contains("\"a\""), "{error}");
    busy.release().await.unwrap();
    assert!(is_untouched(&stub, "b").await);
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_of_all_is_told_by_its_place() {
    let stub = Stub::new();
    let client = stub.client();
    let guards =
        all([client.lock("a"), client.lock("b").hold_at_most(SECOND)]).acquire().await.unwrap();
    assert_eq!(guards.lost().await, (1, LossReason::HoldLimit));
    assert!(!guards.is_valid() && guards.remaining().is_zero() && guards[0].is_valid());
    assert_eq!(guards.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(stub.holder("a").await, None);
}

#[tokio::test(start_paused = true)]
async fn all_refuses_no_lock_and_one_lock_twice() {
    let (stub, elsewhere) = (Stub::new(), Stub::new());
    let client = stub.client();
    let twice = all([client.lock("a"), client.lock("b"), client.lock("a")]);
    // Stubs have no identity; their stores in memory have.
    let unknown = all([client.lock("a"), elsewhere.client().lock("a")]);
    let same = all([stub.other().lock("a"), stub.other().lock("a")]);
    for (wrong, part) in [
        (all([]), "at least 1 lock"),
        (twice, "identity"),
        (unknown, "identity"),
        (same, "given twice"),
        (all([client.lock("")]), "bytes"),
    ] {
        let error = wrong.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(stub.calls("acquire"), 0);
    // Two stores may have locks of one name.
    let both = all([stub.other().lock("a"), elsewhere.other().lock("a")]).acquire().await.unwrap();
    both.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_that_fails_keeps_nothing_for_a_minimum_hold() {
    let stub = Stub::new();
    let _busy = stub.other().lock("b").acquire().await.unwrap();
    let client = stub.client();
    let both = || {
        let kept = client.lock("a").at_least(20 * SECOND);
        all([kept, client.lock("b")]).wait(SECOND)
    };
    both().acquire().await.unwrap_err();
    assert!(is_untouched(&stub, "a").await);
    let cancelled = tokio::time::timeout(SECOND / 2, both().acquire()).await;
    assert!(cancelled.is_err() && is_untouched(&stub, "a").await);
}

#[tokio::test(start_paused = true)]
async fn all_that_a_busy_lock_has_delayed_says_busy() {
    let stub = Stub::new();
    let busy = stub.other().lock("a").acquire().await.unwrap();
    let client = stub.client();
    let both = all(["a", "b"].map(|name| client.lock(name))).wait(2 * SECOND).acquire();
    let waiting = tokio::spawn(both);
    stub.reached("enqueue", 1).await;
    tokio::time::sleep(2 * SECOND - SECOND / 50).await;
    // The answer for `b` does not come in the little time that is left.
    stub.hold("acquire");
    busy.release().await.unwrap();
    let before = stub.calls("acquire");
    let error = waiting.await.unwrap().unwrap_err();
    assert!(stub.calls("acquire") > before, "`b` was asked for");
    assert!(error.is_busy(), "{error:?}");
    assert!(error.to_string().contains("\"a\""), "{error}");
    // A store that had the whole time, and does not answer, is another matter.
    let error = all([client.lock("c")]).wait(2 * SECOND).acquire().await.unwrap_err();
    assert!(!error.is_not_acquired(), "{error:?}");
}

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
