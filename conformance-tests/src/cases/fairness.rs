//! L3: places are served first come, first served, and nobody barges in.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{Enqueued, ReleaseOptions};

use super::{cases, fair};
use crate::setting::{Setting, granted, place, refused, served};

cases! {
    "L3" places_are_served_in_order fair;
    "L3" nobody_barges_past_a_place fair;
    "L3" a_withdrawn_place_is_passed_over fair;
    "L3" a_dead_place_is_passed_over_in_time fair;
    "L3" a_request_that_a_release_carries_goes_to_the_end fair;
    "S6" leaving_a_place_gives_back_what_it_was_granted fair;
}

async fn places_are_served_in_order(setting: Setting) {
    let name = setting.name("job");
    let holder = setting.connect().await;
    let grant = granted(&*holder, &setting.request(&name)).await;
    let backends = join_all((0..4).map(|_| setting.connect())).await;
    let mut waiting = Vec::new();
    for backend in &backends {
        let request = setting.request(&name);
        let (turn, busy) = place(&**backend, &request).await;
        waiting.push((backend, request, turn, busy));
    }
    let (tell, mut order) = tokio::sync::mpsc::unbounded_channel();
    let all = waiting.into_iter().enumerate().map(|(at, (backend, request, mut turn, busy))| {
        let tell = tell.clone();
        async move {
            let grant = served(&**backend, &request, &mut *turn, busy).await;
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
        assert_eq!(at, expected, "served out of turn");
        assert!(token > last);
        last = token;
    }
}

async fn nobody_barges_past_a_place(setting: Setting) {
    let name = setting.name("job");
    let (holder, waiter, third) =
        (setting.connect().await, setting.connect().await, setting.connect().await);
    let grant = granted(&*holder, &setting.request(&name)).await;
    let request = setting.request(&name);
    let (mut turn, busy) = place(&*waiter, &request).await;
    holder.release(&grant, ReleaseOptions::default()).await.unwrap();
    // The place is alive, whether or not it has heard of its luck yet.
    refused(&*third, &setting.request(&name)).await;
    served(&*waiter, &request, &mut *turn, busy).await;
    refused(&*third, &setting.request(&name)).await;
}

async fn a_withdrawn_place_is_passed_over(setting: Setting) {
    let name = setting.name("job");
    let (holder, gone, next) =
        (setting.connect().await, setting.connect().await, setting.connect().await);
    let grant = granted(&*holder, &setting.request(&name)).await;
    let (left, _) = place(&*gone, &setting.request(&name)).await;
    let request = setting.request(&name);
    let (mut turn, busy) = place(&*next, &request).await;
    left.leave().await.unwrap();
    holder.release(&grant, ReleaseOptions::default()).await.unwrap();
    served(&*next, &request, &mut *turn, busy).await;
}

async fn a_dead_place_is_passed_over_in_time(setting: Setting) {
    let name = setting.name("job");
    let (holder, next) = (setting.connect().await, setting.connect().await);
    let grant = granted(&*holder, &setting.request(&name)).await;
    {
        // Its process dies: no heartbeat, no withdrawal.
        let dead = setting.connect().await;
        let (turn, _) = place(&*dead, &setting.request(&name)).await;
        drop(turn);
    }
    let request = setting.request(&name);
    let (mut turn, busy) = place(&*next, &request).await;
    holder.release(&grant, ReleaseOptions::default()).await.unwrap();
    let promised = setting.promised();
    let limit = promised.dead_place_delay + promised.longest_poll + Duration::from_secs(10);
    let served = served(&*next, &request, &mut *turn, busy);
    tokio::time::timeout(limit, served).await.expect("the dead place is passed over");
}

async fn a_request_that_a_release_carries_goes_to_the_end(setting: Setting) {
    let name = setting.name("job");
    let (one, other) = (setting.connect().await, setting.connect().await);
    let grant = granted(&*one, &setting.request(&name)).await;
    let request = setting.request(&name);
    let (mut turn, busy) = place(&*other, &request).await;
    let next = setting.request(&name);
    let options = ReleaseOptions::new().with_next(&next);
    let carried = match one.release(&grant, options).await.unwrap().next {
        Some(enqueued) => enqueued,
        // A backend may leave it to the core to ask.
        None => one.enqueue(&next).await.unwrap(),
    };
    let Enqueued::Waiting(mut carried, carried_busy) = carried else {
        panic!("the carried request went past a place: {carried:?}");
    };
    let theirs = served(&*other, &request, &mut *turn, busy).await;
    other.release(&theirs, ReleaseOptions::default()).await.unwrap();
    let ours = served(&*one, &next, &mut *carried, carried_busy).await;
    assert!(ours.token > theirs.token);
}

async fn leaving_a_place_gives_back_what_it_was_granted(setting: Setting) {
    let name = setting.name("job");
    let (holder, gone) = (setting.connect().await, setting.connect().await);
    let grant = granted(&*holder, &setting.request(&name)).await;
    let (turn, _) = place(&*gone, &setting.request(&name)).await;
    holder.release(&grant, ReleaseOptions::default()).await.unwrap();
    turn.leave().await.unwrap();
    let client = setting.client().await;
    let after = client.lock(&name).wait(Duration::from_secs(10)).acquire().await;
    assert!(after.is_ok(), "the lock is left behind");
}
