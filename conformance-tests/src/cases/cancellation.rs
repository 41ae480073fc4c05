//! S6: a future that is dropped at any time leaves no lock behind.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use lock_core::{LockClient, LockName, ReleaseOptions};
use tokio::sync::oneshot;

use super::cases;
use crate::setting::{Setting, granted, refused};

cases! {
    "S6" an_acquire_dropped_at_any_poll_leaves_nothing;
    "S6" a_waiting_acquire_dropped_at_any_poll_leaves_nothing;
    "S6" a_served_acquire_dropped_at_any_poll_leaves_nothing;
    "S6" a_connect_dropped_at_any_poll_changes_nothing;
    "S6" a_try_acquire_dropped_at_any_poll_leaves_nothing;
    "S6" a_release_dropped_at_any_poll_still_releases;
    "S6" a_with_dropped_at_any_poll_leaves_nothing;
    "S6" a_close_dropped_at_any_poll_leaves_nothing;
    "S6" a_wait_for_the_loss_dropped_at_any_poll_changes_nothing;
    "S6" a_dropped_guard_is_released;
    "S6" an_abandoned_owner_takes_nothing_any_more;
    "S6" abandoning_frees_what_was_taken;
}

/// How many polls a future may need at most.
const MOST: usize = 200;

/// Polls a future up to `polls` times, each time when it has woken its task, and then drops it.
/// `None` if it has not ended.
async fn poll_times<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut count = 0;
    poll_fn(|context| {
        if count == polls {
            return Poll::Ready(None);
        }
        count += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // This was the last allowed poll, so there is no need to wait for a wake-up.
            Poll::Pending if count == polls => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Asserts that the lock is free within one round trip of clean-up, long before the end of the
/// (long) lease.
async fn is_free(setting: &Setting, name: &LockName) {
    let other = setting.client().await;
    let limit = setting.promised().longest_poll + setting.promised().dead_waiter_delay;
    let lock = other.lock(name).wait(limit + Duration::from_secs(10));
    let guard =
        lock.acquire().await.expect("the dropped future must leave no lock and no queue entry");
    guard.release().await.unwrap();
    other.close().await;
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Drops the future of `start` after n polls, for each n from 0 until it ends.
async fn at_every_poll<T: Send>(
    setting: &Setting,
    what: &str,
    start: impl Fn(LockClient, LockName) -> Boxed<'static, T>,
) {
    for polls in 0..MOST {
        let client = setting.client().await;
        let name = setting.name(&format!("{what} {polls}"));
        let ended = poll_times(start(client.clone(), name.clone()), polls).await;
        let done = ended.is_some();
        drop(ended);
        is_free(setting, &name).await;
        client.close().await;
        if done {
            println!("    {what}: dropped after 0 to {polls} polls");
            assert!(polls > 0);
            return;
        }
    }
    panic!("{what} did not end within {MOST} polls");
}

async fn an_acquire_dropped_at_any_poll_leaves_nothing(setting: &Setting) {
    let lease = setting.long_lease();
    at_every_poll(setting, "acquire", |client, name| {
        Box::pin(async move { client.lock(name).lease(lease).acquire().await.map(drop) })
    })
    .await;
}

async fn a_try_acquire_dropped_at_any_poll_leaves_nothing(setting: &Setting) {
    let lease = setting.long_lease();
    at_every_poll(setting, "try_acquire", |client, name| {
        Box::pin(async move { client.lock(name).lease(lease).try_acquire().await.map(drop) })
    })
    .await;
}

async fn a_with_dropped_at_any_poll_leaves_nothing(setting: &Setting) {
    at_every_poll(setting, "with", |client, name| {
        Box::pin(
            async move { client.lock(name).with(async |_| tokio::task::yield_now().await).await },
        )
    })
    .await;
}

async fn a_waiting_acquire_dropped_at_any_poll_leaves_nothing(setting: &Setting) {
    for polls in 0..MOST {
        let (holder, client) = (setting.client().await, setting.client().await);
        let name = setting.name(&format!("wait {polls}"));
        let guard = holder.lock(&name).acquire().await.unwrap();
        let waiting = client.lock(&name).wait(Duration::from_millis(100)).acquire();
        let ended = poll_times(waiting, polls).await;
        assert!(!matches!(ended, Some(Ok(_))), "granted while another holds it");
        guard.release().await.unwrap();
        is_free(setting, &name).await;
        if ended.is_some() {
            println!("    a wait that times out: dropped after 0 to {polls} polls");
            return;
        }
    }
    panic!("a wait of 100 ms did not end within {MOST} polls");
}

/// The lock is handed over while the future is polled, so the drop may come while the grant is on
/// its way.
async fn a_served_acquire_dropped_at_any_poll_leaves_nothing(setting: &Setting) {
    for polls in 0..MOST {
        let (holder, (client, mut waits)) =
            (setting.client().await, setting.observed_client().await);
        let name = setting.name(&format!("served {polls}"));
        let guard = holder.lock(&name).acquire().await.unwrap();
        let (dropped, gone) = oneshot::channel::<()>();
        let release = tokio::spawn(async move {
            tokio::select! {
                () = waits.reach(1) => {}
                _ = gone => {}
            }
            guard.release().await.unwrap();
        });
        let lock = client.lock(&name).lease(setting.long_lease()).wait(setting.patience());
        let ended = poll_times(lock.acquire(), polls).await;
        let done = ended.is_some();
        if let Some(served) = ended {
            drop(served.expect("the waiter is served"));
        }
        drop(dropped);
        release.await.unwrap();
        is_free(setting, &name).await;
        if done {
            println!("    a wait that is served: dropped after 0 to {polls} polls");
            return;
        }
    }
    panic!("a waiter was not served within {MOST} polls");
}

/// A connect that is dropped neither blocks the store nor leaves anything in it.
async fn a_connect_dropped_at_any_poll_changes_nothing(setting: &Setting) {
    let client = setting.client().await;
    let mut polls = 0;
    for _ in 0..MOST {
        let name = setting.name(&format!("connect {polls}"));
        let ended = poll_times(setting.harness().connect(setting.address()), polls).await;
        let guard =
            client.lock(&name).acquire().await.expect("a dropped connect must not block the store");
        guard.release().await.unwrap();
        if let Some(backend) = ended {
            drop(LockClient::new(backend.unwrap()).lock(&name).acquire().await.unwrap());
            println!("    connect: dropped after 0 to {polls} polls");
            return;
        }
        // The connect of a migration lists the names of all cases, and each answer is a poll. So
        // later polls are a sample.
        polls += 1 + polls / 32;
    }
    panic!("a connect did not end within {polls} polls");
}

async fn a_release_dropped_at_any_poll_still_releases(setting: &Setting) {
    for polls in 0..MOST {
        let client = setting.client().await;
        let name = setting.name(&format!("release {polls}"));
        let guard = client.lock(&name).lease(setting.long_lease()).acquire().await.unwrap();
        let ended = poll_times(guard.release(), polls).await;
        is_free(setting, &name).await;
        if ended.is_some() {
            println!("    release: dropped after 0 to {polls} polls");
            return;
        }
    }
    panic!("a release did not end within {MOST} polls");
}

async fn a_close_dropped_at_any_poll_leaves_nothing(setting: &Setting) {
    for polls in 0..MOST {
        let client = setting.client().await;
        let (held, given_up) =
            (setting.name(&format!("held {polls}")), setting.name(&format!("given up {polls}")));
        let lease = setting.long_lease();
        let guard = client.lock(&held).lease(lease).acquire().await.unwrap();
        drop(client.lock(&given_up).lease(lease).acquire().await.unwrap());
        let ended = poll_times(client.close(), polls).await;
        drop(guard);
        is_free(setting, &held).await;
        is_free(setting, &given_up).await;
        if ended.is_some() {
            println!("    close: dropped after 0 to {polls} polls");
            return;
        }
    }
    panic!("a close did not end within {MOST} polls");
}

async fn a_wait_for_the_loss_dropped_at_any_poll_changes_nothing(setting: &Setting) {
    let client = setting.client().await;
    let name = setting.name("job");
    let guard = client.lock(&name).lease(setting.long_lease()).acquire().await.unwrap();
    // A second poll would only come at the end of the validity.
    for polls in 0..2 {
        assert!(poll_times(guard.lost(), polls).await.is_none(), "nothing was lost");
        assert!(guard.is_valid());
    }
    client.backend().force_release(&name).await.unwrap();
    let other = setting.client().await.lock(&name).acquire().await.unwrap();
    assert!(other.token() > guard.token());
    assert_eq!(guard.release().await.unwrap_err().kind(), lock_core::ErrorKind::NotHeld);
    other.release().await.unwrap();
}

async fn a_dropped_guard_is_released(setting: &Setting) {
    let client = setting.client().await;
    let name = setting.name("job");
    drop(client.lock(&name).lease(setting.long_lease()).acquire().await.unwrap());
    is_free(setting, &name).await;
    // A drop on a thread without a runtime.
    let guard = client.lock(&name).lease(setting.long_lease()).acquire().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().expect("a drop never panics");
    is_free(setting, &name).await;
}

async fn an_abandoned_owner_takes_nothing_any_more(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let request = setting.request(&setting.name("job"));
    one.abandon(&request).await.unwrap();
    // A late request: the store reads the attempt after its client has cleaned up.
    let late = other.try_acquire(&request).await;
    assert!(
        !matches!(late, Ok(lock_core::Attempt::Granted(_))),
        "a late request of an abandoned owner must get nothing; the store answered {late:?}"
    );
    is_free(setting, &request.name).await;
}

async fn abandoning_frees_what_was_taken(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let request = setting.request(&setting.name("job"));
    granted(&*one, &request).await;
    refused(&*other, &setting.request(&request.name)).await;
    one.abandon(&request).await.unwrap();
    let grant = granted(&*other, &setting.request(&request.name)).await;
    // A second time, as after a lost answer. It must not touch the later owner's lock.
    one.abandon(&request).await.unwrap();
    let released = other.release(&grant, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, lock_core::ReleaseOutcome::Released);
}
