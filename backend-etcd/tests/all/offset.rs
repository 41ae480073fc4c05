//! The token of a grant uses the offset of the settings, and never one that is not in the settings.

use lock_core::{Backend, Request, Waiter};

use crate::support::{ahead, busy, granted, pair, release, request, waits};

/// Makes an entry right after its client has read the store's revision, so that the entry needs the
/// same offset when it is made and when its turn comes.
async fn waits_now(backend: &dyn Backend, request: &Request) -> Box<dyn Waiter> {
    busy(backend, request).await;
    waits(backend, request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_after_a_wait_leaves_its_offset_in_the_settings() {
    let (_etcd, [one, other]) = pair().await;
    let first = granted(&*one, &request()).await;
    let wanted = ahead();
    let waiter = waits_now(&*other, &wanted).await;
    release(&*one, &first).await;
    let second = granted(&*other, &wanted).await;
    assert!(second.token > wanted.floor);
    drop(waiter);
    release(&*other, &second).await;
    let third = granted(&*one, &request()).await;
    assert!(third.token > second.token, "{} after {}", third.token, second.token);
}

/// The token that the waiter would have got was never granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_entry_shows_no_token_that_is_never_granted() {
    let (_etcd, [one, other]) = pair().await;
    let first = granted(&*one, &request()).await;
    let waiter = waits_now(&*other, &ahead()).await;
    release(&*one, &first).await;
    let shown = busy(&*one, &request()).await.token;
    waiter.leave().await.unwrap();
    let third = granted(&*one, &request()).await;
    assert!(third.token > shown, "{} after {shown} was shown", third.token);
}
