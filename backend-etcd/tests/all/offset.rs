//! The token of a grant is made with the offset of the settings, and with none that is not there.

use lock_core::{
    Attempt, Backend, Enqueued, Env as _, FencingToken, Grant, ReleaseOptions, Request, SystemEnv,
    Waiter,
};

use crate::support::{connect, request, single};

/// Tokens are to be well ahead of the clock, so that it does not lift them by itself.
fn ahead() -> Request {
    let mut request = request();
    request.floor = FencingToken::new(SystemEnv.wall_micros() + 20_000_000).unwrap();
    request
}

async fn granted(backend: &dyn Backend, request: &Request) -> Grant {
    backend.try_acquire(request).await.unwrap().granted().unwrap()
}

async fn release(backend: &dyn Backend, grant: &Grant) {
    backend.release(grant, ReleaseOptions::default()).await.unwrap();
}

/// Waits with a place that is made right after its client has seen the store's revision, so that what the
/// place needs of the offset is the same when it is made and when its turn comes.
async fn waits(backend: &dyn Backend, request: &Request) -> Box<dyn Waiter> {
    assert!(matches!(backend.try_acquire(request).await.unwrap(), Attempt::Busy(_)));
    match backend.enqueue(request).await.unwrap() {
        Enqueued::Waiting(turn, _) => turn,
        other => panic!("two holders: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_after_a_wait_leaves_its_offset_to_those_after_it() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let (one, other) = (connect(address, "5s").await, connect(address, "5s").await);
    let first = granted(&*one, &request()).await;
    let wanted = ahead();
    let turn = waits(&*other, &wanted).await;
    release(&*one, &first).await;
    let second = granted(&*other, &wanted).await;
    assert!(second.token > wanted.floor);
    drop(turn);
    release(&*other, &second).await;
    let third = granted(&*one, &request()).await;
    assert!(third.token > second.token, "{} after {}", third.token, second.token);
}

/// The token that the waiter would have got was never granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_waits_tells_no_token_that_is_never_granted() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let (one, other) = (connect(address, "5s").await, connect(address, "5s").await);
    let first = granted(&*one, &request()).await;
    let turn = waits(&*other, &ahead()).await;
    release(&*one, &first).await;
    let Attempt::Busy(busy) = one.try_acquire(&request()).await.unwrap() else {
        panic!("two holders");
    };
    turn.leave().await.unwrap();
    let third = granted(&*one, &request()).await;
    assert!(third.token > busy.token, "{} after {} was told", third.token, busy.token);
}
