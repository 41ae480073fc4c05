//! The client over the store: many tasks, `close`, lost guards.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::{join, join_all};
use lock_core::{ErrorKind, Fence, LossReason};

use super::cases;
use crate::{
    child::add_one,
    history::{ALL_RULES, Recorder, assert_clean},
    setting::Setting,
};

cases! {
    "S1" many_tasks_of_many_clients_never_overlap;
    "L6" close_releases_and_refuses;
    "L6" close_turns_waiters_away;
    "L6" close_waits_for_releases_under_way;
    "L4" tasks_that_ask_at_once_share_an_attempt;
    "L5" a_guard_that_is_taken_over_is_told;
    "S6" a_client_dropped_with_its_guard_leaves_nothing;
}

async fn many_tasks_of_many_clients_never_overlap(setting: &Setting) {
    const CLIENTS: u32 = 4;
    const TASKS: u32 = 4;
    const TIMES: u32 = 6;
    let name = setting.name("counter");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0").unwrap();
    let path = file.path().to_str().unwrap();
    let fence = Arc::new(Fence::new());
    let recorders: Vec<_> = (0..CLIENTS).map(Recorder::new).collect();
    let mut tasks = Vec::new();
    for recorder in &recorders {
        let client = setting.client().await;
        for _ in 0..TASKS {
            let (client, name, path, fence) = (client.clone(), &name, path, Arc::clone(&fence));
            tasks.push(async move {
                for _ in 0..TIMES {
                    let op = recorder.ask(name);
                    let guard = client.lock(name).acquire().await.unwrap();
                    op.acquired(&guard);
                    fence.admit("counter", guard.token()).expect("tokens increase");
                    add_one(path);
                    tokio::task::yield_now().await;
                    op.look(&guard);
                    op.given_up();
                    op.released(&guard.release().await);
                }
            });
        }
    }
    join_all(tasks).await;
    let total = std::fs::read_to_string(path).unwrap();
    assert_eq!(total, (CLIENTS * TASKS * TIMES).to_string(), "two holders at once lost an update");
    let histories = recorders.iter().map(Recorder::history);
    let history = histories.reduce(|all, one| all.join(one)).unwrap();
    assert_clean(&history, ALL_RULES);
}

async fn close_releases_and_refuses(setting: &Setting) {
    let (client, other) = (setting.client().await, setting.client().await);
    let (one, two) = (setting.name("one"), setting.name("two"));
    let lease = setting.long_lease();
    let guard = client.lock(&one).lease(lease).acquire().await.unwrap();
    drop(client.lock(&two).lease(lease).acquire().await.unwrap());
    client.close().await;
    assert!(!guard.is_valid());
    assert_eq!(guard.lost().await, LossReason::Closed);
    let error = client.lock(&one).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    for name in [&one, &two] {
        let guard = other.lock(name).try_acquire().await.unwrap().guard();
        assert!(guard.is_some(), "after `close`, {name} must be free at once");
    }
}

async fn close_turns_waiters_away(setting: &Setting) {
    let (holder, (client, mut waits)) = (setting.client().await, setting.observed_client().await);
    let name = setting.name("job");
    let guard = holder.lock(&name).acquire().await.unwrap();
    let waiter = tokio::spawn(client.lock(&name).acquire());
    waits.reach(1).await;
    client.close().await;
    let error = waiter.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    guard.release().await.unwrap();
    let after = holder.lock(&name).wait(Duration::from_secs(10)).acquire().await;
    assert!(after.is_ok(), "`close` left a queue entry behind: {after:?}");
}

async fn close_waits_for_releases_under_way(setting: &Setting) {
    // More than a store has connections, so that some releases are not sent yet.
    const LOCKS: usize = 24;
    let (client, other) = (setting.client().await, setting.client().await);
    let names: Vec<_> = (0..LOCKS).map(|at| setting.name(&format!("job {at}"))).collect();
    let mut releases = Vec::new();
    for name in &names {
        let lock = client.lock(name).lease(setting.long_lease());
        releases.push(lock.acquire().await.unwrap().release());
    }
    // Each release is polled once before `close` is.
    let (released, ()) = join(join_all(releases), client.close()).await;
    for (name, released) in names.iter().zip(released) {
        assert!(released.is_ok(), "`close` must wait for the release of {name}: {released:?}");
        let guard = other.lock(name).try_acquire().await.unwrap().guard();
        assert!(guard.is_some(), "{name} was released before `close` and must be free");
    }
}

async fn tasks_that_ask_at_once_share_an_attempt(setting: &Setting) {
    const TASKS: usize = 24;
    let (client, waits) = setting.observed_client().await;
    let name = setting.name("job");
    let served = Mutex::new(Vec::new());
    // Each is polled for the first time in this order.
    let tasks = (0..TASKS).map(|at| {
        let (lock, served) = (client.lock(&name).lease(setting.long_lease()), &served);
        async move {
            let guard = lock.acquire().await.unwrap();
            served.lock().unwrap().push(at);
            guard.release().await.unwrap();
        }
    });
    join_all(tasks).await;
    let served = served.into_inner().unwrap();
    assert!(
        served.is_sorted() && served.len() == TASKS,
        "tasks of one client must be served in the order of their calls: {served:?}"
    );
    assert_eq!(waits.most_attempts_at_once(), 1, "tasks of one client must share one attempt");
}

async fn a_guard_that_is_taken_over_is_told(setting: &Setting) {
    let (client, other) = (setting.client().await, setting.client().await);
    let name = setting.name("job");
    let guard = client.lock(&name).lease(setting.lease()).acquire().await.unwrap();
    let cancelled = guard.cancellation_token();
    other.backend().force_release(&name).await.unwrap();
    let theirs = other.lock(&name).wait(setting.patience()).acquire().await.unwrap();
    let limit = setting.patience();
    let told = tokio::time::timeout(limit, cancelled.cancelled()).await;
    assert!(told.is_ok(), "the guard did not report its loss within {limit:?}");
    assert!(!guard.is_valid() && guard.remaining().is_zero());
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(theirs.is_valid());
    theirs.release().await.unwrap();
}

async fn a_client_dropped_with_its_guard_leaves_nothing(setting: &Setting) {
    let name = setting.name("job");
    let client = setting.client().await;
    let guard = client.lock(&name).lease(setting.long_lease()).acquire().await.unwrap();
    drop(client);
    assert!(guard.is_valid(), "a guard must keep its client alive");
    drop(guard);
    let other = setting.client().await;
    let after = other.lock(&name).wait(Duration::from_secs(10)).acquire().await;
    assert!(after.is_ok(), "the dropped guard left its lock behind: {after:?}");
}
