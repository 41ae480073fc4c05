//! L2: waiters are served, in time, and give up in time.

use std::time::Duration;

use lock_core::{Blocked, ErrorKind};

use super::cases;
use crate::setting::Setting;

cases! {
    "L2" a_release_serves_a_waiter;
    "L2" a_waiter_of_the_same_client_is_served;
    "L2" an_expiry_serves_a_waiter;
    "L2" a_wait_that_is_over_names_the_holder;
    "L2" a_wait_of_zero_does_not_wait;
    "S1" a_second_acquire_of_the_same_process_waits;
}

async fn a_release_serves_a_waiter(setting: &Setting) {
    let (one, (other, mut waits)) = (setting.client().await, setting.observed_client().await);
    let name = setting.name("job");
    for round in 1..=5 {
        let guard = one.lock(&name).lease(setting.long_lease()).acquire().await.unwrap();
        let first = guard.token();
        let lock =
            other.lock(&name).wait(setting.promised().longest_poll * 2 + Duration::from_secs(10));
        let waiter = tokio::spawn(lock.acquire());
        waits.reach(round).await;
        guard.release().await.unwrap();
        let second = waiter.await.unwrap().expect("the release must serve the waiter");
        assert!(second.token() > first);
        second.release().await.unwrap();
    }
}

async fn a_waiter_of_the_same_client_is_served(setting: &Setting) {
    let (client, mut waits) = setting.observed_client().await;
    let name = setting.name("job");
    let guard = client.lock(&name).acquire().await.unwrap();
    let waiters: Vec<_> = (0..5)
        .map(|_| {
            let lock = client.lock(&name);
            tokio::spawn(async { lock.acquire().await.unwrap().release().await.unwrap() })
        })
        .collect();
    // One queue entry for all of them.
    waits.reach(1).await;
    guard.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
}

async fn an_expiry_serves_a_waiter(setting: &Setting) {
    let (backend, client) = (setting.connect().await, setting.client().await);
    let name = setting.name("job");
    crate::setting::granted(&*backend, &setting.short_request(&name)).await;
    let guard = client.lock(&name).wait(setting.patience()).acquire().await.unwrap();
    assert!(guard.is_valid());
}

async fn a_wait_that_is_over_names_the_holder(setting: &Setting) {
    let (one, other) = (setting.client().await, setting.client().await);
    let name = setting.name("job");
    let guard = one.lock(&name).acquire().await.unwrap();
    // Long enough for one answer of the store on a busy machine.
    let error = other.lock(&name).wait(Duration::from_secs(3)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let Some(Blocked::Busy(busy)) = error.blocked() else { panic!("{error:?}") };
    assert_eq!(busy.holder.as_ref().map(|holder| holder.owner), Some(guard.owner()));
    assert_eq!(busy.token, guard.token());
    guard.release().await.unwrap();
    let after = other.lock(&name).wait(setting.patience()).acquire().await;
    assert!(after.is_ok(), "the wait that ended left a queue entry behind: {after:?}");
}

async fn a_wait_of_zero_does_not_wait(setting: &Setting) {
    let (one, other) = (setting.client().await, setting.client().await);
    let name = setting.name("job");
    let guard = one.lock(&name).acquire().await.unwrap();
    let error = other.lock(&name).wait(Duration::ZERO).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.blocked().is_some());
    assert!(other.lock(&name).try_acquire().await.unwrap().guard().is_none());
    guard.release().await.unwrap();
    assert!(other.lock(&name).wait(setting.patience()).acquire().await.is_ok());
}

async fn a_second_acquire_of_the_same_process_waits(setting: &Setting) {
    let client = setting.client().await;
    let name = setting.name("job");
    let guard = client.lock(&name).acquire().await.unwrap();
    let error = client.lock(&name).wait(Duration::from_millis(50)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(guard.is_valid());
}
