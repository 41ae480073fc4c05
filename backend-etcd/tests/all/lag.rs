//! How far tokens lag the clock, on a real server.

use std::time::Duration;

use lock_core::{Backend, Enqueued, Env as _, FencingToken, Grant, ReleaseOptions, SystemEnv};
use tokio::time::{sleep, timeout};

use crate::support::{WAIT, connect, request, single};

/// As the documentation states it.
const BOUND: Duration = Duration::from_secs(1);

/// How far a token was behind the clock when it was asked for.
fn lag(token: FencingToken, asked: u64) -> Duration {
    Duration::from_micros(asked.saturating_sub(token.get()))
}

async fn free(backend: &dyn Backend, grant: &Grant) {
    backend.release(grant, ReleaseOptions::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_lags_the_clock_by_more_than_a_second() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    // One that raises, and one that learns of each raise by the refusal of its own transaction.
    let clients = [connect(address, "5s").await, connect(address, "5s").await];
    let (mut last, mut worst) = (FencingToken::ZERO, Duration::ZERO);
    let began = SystemEnv.now();
    while SystemEnv.now().since(began) < BOUND * 3 {
        for client in &clients {
            let asked = SystemEnv.wall_micros();
            let grant = client.try_acquire(&request()).await.unwrap().granted().unwrap();
            assert!(grant.token > last);
            last = grant.token;
            worst = worst.max(lag(grant.token, asked));
            free(&**client, &grant).await;
        }
        sleep(Duration::from_millis(20)).await;
    }
    // It is not raised each time: otherwise this test would show nothing.
    assert!(worst > BOUND / 2 && worst <= BOUND, "the longest lag was {worst:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_waited_long_gets_a_token_of_its_turn() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let (holder, waiter) = (connect(address, "5s").await, connect(address, "5s").await);
    let held = holder.try_acquire(&request()).await.unwrap().granted().unwrap();
    let wanted = request();
    let Enqueued::Waiting(mut turn, _) = waiter.enqueue(&wanted).await.unwrap() else {
        panic!("two holders");
    };
    sleep(BOUND * 2).await;
    let asked = SystemEnv.wall_micros();
    free(&*holder, &held).await;
    let served = async {
        loop {
            turn.next().await;
            if let Some(grant) = waiter.try_acquire(&wanted).await.unwrap().granted() {
                return grant;
            }
        }
    };
    let grant = timeout(WAIT, served).await.expect("it is served");
    assert!(lag(grant.token, asked) <= BOUND, "{:?}", lag(grant.token, asked));
    // Others are told the same.
    let told = holder.inspect(&grant.name).await.unwrap().unwrap();
    assert_eq!(told.token, grant.token);
    let after = request();
    free(&*waiter, &grant).await;
    let next = holder.try_acquire(&after).await.unwrap().granted().unwrap();
    assert!(next.token > grant.token);
}
