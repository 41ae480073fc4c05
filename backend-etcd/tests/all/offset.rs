//! Tokens and the clock: the offset, and how far tokens lag behind.

use std::time::Duration;

use lock_core::{Backend, Env as _, FencingToken, Request, SystemEnv, Waiter};
use tokio::time::sleep;

use crate::support::{ahead, busy, granted, pair, pushed, release, request, waits};

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

/// The bound in the documentation.
const BOUND: Duration = Duration::from_secs(1);

/// Far more revisions than two grants take, and in microseconds far less than two grants are apart.
const REVISIONS: u64 = 100;

/// How far a token was behind the clock when it was requested.
fn lag(token: FencingToken, requested: u64) -> Duration {
    Duration::from_micros(requested.saturating_sub(token.get()))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_lags_the_clock_by_more_than_a_second() {
    // One client raises the offset, and the other learns of each raise when its own transaction is
    // refused.
    let (_etcd, clients) = pair().await;
    let (mut last, mut worst) = (FencingToken::ZERO, Duration::ZERO);
    let mut raises = 0;
    let began = SystemEnv.now();
    while SystemEnv.now().since(began) < BOUND * 3 {
        for client in &clients {
            let requested = SystemEnv.wall_micros();
            let grant = granted(&**client, &request()).await;
            assert!(grant.token > last);
            // Otherwise the token is higher by the few revisions since the last one.
            raises += u128::from(grant.token.get() - last.get() > REVISIONS);
            last = grant.token;
            worst = worst.max(lag(grant.token, requested));
            release(&**client, &grant).await;
        }
        sleep(Duration::from_millis(20)).await;
    }
    assert!(worst <= BOUND, "the longest lag was {worst:?}");
    // Each raise costs the other client a read. The first one is at the first grant.
    let took = SystemEnv.now().since(began);
    let most = 1 + took.as_nanos() / BOUND.as_nanos();
    assert!((1..=most).contains(&raises), "{raises} raises in {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_waited_long_gets_a_token_of_its_turn() {
    let (_etcd, [holder, waiter]) = pair().await;
    let held = granted(&*holder, &request()).await;
    let wanted = request();
    let mut entry = waits(&*waiter, &wanted).await;
    sleep(BOUND * 2).await;
    let requested = SystemEnv.wall_micros();
    release(&*holder, &held).await;
    let grant = pushed(&*waiter, &wanted, &mut *entry).await;
    assert!(lag(grant.token, requested) <= BOUND, "{:?}", lag(grant.token, requested));
    // Others read the same token.
    let state = holder.inspect(&grant.name).await.unwrap().unwrap();
    assert_eq!(state.token, grant.token);
    release(&*waiter, &grant).await;
    let next = granted(&*holder, &request()).await;
    assert!(next.token > grant.token);
}
