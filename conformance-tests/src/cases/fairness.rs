//! L3: queue entries are served first come, first served, and no attempt passes them.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{Enqueued, ReleaseOptions};

use super::{cases, fair};
use crate::setting::{Setting, enqueued, granted, refused, served};

cases! {
    "L3" waiters_are_served_in_order fair;
    "L3" no_attempt_barges_past_a_waiter fair;
    "L3" a_withdrawn_entry_is_passed_over fair;
    "L3" a_dead_entry_is_passed_over_in_time fair;
    "L3" a_request_that_a_release_carries_goes_to_the_end fair;
    "S6" a_withdrawal_gives_back_what_was_granted fair;
}

async fn waiters_are_served_in_order(setting: &Setting) {
    let name = setting.name("job");
    let holder = setting.connect().await;
    let grant = granted(&*holder, &setting.request(&name)).await;
    let backends = join_all((0..4).map(|_| setting.connect())).await;
    let mut waiting = Vec::new();
    for backend in &backends {
        let request = setting.request(&name);
        let (entry, busy) = enqueued(&**backend, &request).await;
        waiting.push((backend, request, entry, busy));
    }
    let (tell, mut order) = tokio::sync::mpsc::unbounded_channel();
    let all = waiting.into_iter().enumerate().map(|(at, (backend, request, mut entry, busy))| {
        let tell = tell.clone();
        async move {
            let grant = served(&**backend, &request, &mut *entry, busy).await;
            tell.send((at, grant.token)).unwrap();
            backend.release(&grant, ReleaseOptions::default()).await.unwrap();
        }
    });
    let release = async { holder.release(&grant, ReleaseOptions::default()).await.unwrap() };
    tokio::join!(join_all(all), release);
    drop(tell);
    let mut last = grant.token;
    for expected in 0..backends.len() {
        let (at, token) = order.recv().await.unwrap();
        assert_eq!(at, expected, "served out of order");
        assert!(token > last);
        last = token;
    }
}

async fn no_attempt_barges_past_a_waiter(setting: &Setting) {
    let name = setting.name("job");
    let (holder, waiter, third) =
        (setting.connect().await, setting.connect().await, setting.connect().await);
    let grant = granted(&*holder, &setting.request(&name)).await;
    let request = setting.request(&name);
    let (mut entry, busy) = enqueued(&*waiter, &request).await;
    holder.release(&grant, ReleaseOptions::default()).await.unwrap();
    // The waiter's entry is alive, whether or not the waiter knows of the grant yet.
    refused(&*third, &setting.request(&name)).await;
    served(&*waiter, &request, &mut *entry, busy).await;
    refused(&*third, &setting.request(&name)).await;
}

async fn a_withdrawn_entry_is_passed_over(setting: &Setting) {
    let name = setting.name("job");
    let (holder, gone, next) =
        (setting.connect().await, setting.connect().await, setting.connect().await);
    let grant = granted(&*holder, &setting.request(&name)).await;
    let (left, _) = enqueued(&*gone, &setting.request(&name)).await;
    let request = setting.request(&name);
    let (mut entry, busy) = enqueued(&*next, &request).await;
    left.leave().await.unwrap();
    holder.release(&grant, ReleaseOptions::default()).await.unwrap();
    served(&*next, &request, &mut *entry, busy).await;
}

async fn a_dead_entry_is_passed_over_in_time(setting: &Setting) {
    let name = setting.name("job");
    let (holder, next) = (setting.connect().await, setting.connect().await);
    let grant = granted(&*holder, &setting.request(&name)).await;
    {
        // As if the process died: no heartbeat, no withdrawal.
        let dead = setting.connect().await;
        let (entry, _) = enqueued(&*dead, &setting.request(&name)).await;
        drop(entry);
    }
    let request = setting.request(&name);
    let (mut entry, busy) = enqueued(&*next, &request).await;
    holder.release(&grant, ReleaseOptions::default()).await.unwrap();
    let promised = setting.promised();
    let limit = promised.dead_waiter_delay + promised.longest_poll + Duration::from_secs(10);
    let served = served(&*next, &request, &mut *entry, busy);
    let served = tokio::time::timeout(limit, served).await;
    assert!(served.is_ok(), "the waiter behind a dead queue entry was not served within {limit:?}");
}

async fn a_request_that_a_release_carries_goes_to_the_end(setting: &Setting) {
    let name = setting.name("job");
    let (one, other) = (setting.connect().await, setting.connect().await);
    let grant = granted(&*one, &setting.request(&name)).await;
    let request = setting.request(&name);
    let (mut entry, busy) = enqueued(&*other, &request).await;
    let next = setting.request(&name);
    let options = ReleaseOptions::new().with_next(&next);
    let carried = match one.release(&grant, options).await.unwrap().next {
        Some(enqueued) => enqueued,
        // A backend may leave the request to the core.
        None => one.enqueue(&next).await.unwrap(),
    };
    let Enqueued::Waiting(mut carried, carried_busy) = carried else {
        panic!(
            "the request that the release carried must wait behind the queue entry: {carried:?}"
        );
    };
    let theirs = served(&*other, &request, &mut *entry, busy).await;
    other.release(&theirs, ReleaseOptions::default()).await.unwrap();
    let ours = served(&*one, &next, &mut *carried, carried_busy).await;
    assert!(ours.token > theirs.token);
}

async fn a_withdrawal_gives_back_what_was_granted(setting: &Setting) {
    let name = setting.name("job");
    let (holder, gone) = (setting.connect().await, setting.connect().await);
    let grant = granted(&*holder, &setting.request(&name)).await;
    let (entry, _) = enqueued(&*gone, &setting.request(&name)).await;
    holder.release(&grant, ReleaseOptions::default()).await.unwrap();
    entry.leave().await.unwrap();
    let client = setting.client().await;
    let after = client.lock(&name).wait(Duration::from_secs(10)).acquire().await;
    assert!(after.is_ok(), "a withdrawn queue entry kept the lock that it was granted: {after:?}");
}
