//! How far tokens lag behind the clock.

use std::time::Duration;

use lock_core::{Env as _, FencingToken, SystemEnv};
use tokio::time::sleep;

use crate::support::{granted, pair, pushed, release, request, waits};

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
