//! Readers and writers that wait for each other.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{Blocked, Env as _, OwnerId, SystemEnv};

use super::NOW;
use crate::{
    cases::{cases, shared},
    setting::{Setting, enqueued, granted, refused, served},
};

cases! {
    "L1" a_crashed_reader_delays_a_writer_by_its_lease shared;
    "L2" a_writer_waits_for_the_last_reader shared;
    "L2" a_wait_that_is_over_names_the_readers shared;
    "L2" a_release_serves_all_waiting_readers shared;
    "L3" no_reader_passes_a_waiting_writer shared;
    "L3" readers_in_a_loop_do_not_starve_a_writer shared;
    "L3" a_writer_that_gives_up_lets_the_readers_behind_it_in shared;
}

async fn a_crashed_reader_delays_a_writer_by_its_lease(setting: &Setting) {
    let (backend, client) = (setting.connect().await, setting.client().await);
    let name = setting.name("job");
    let inside = granted(&*backend, &setting.short_reader(&name)).await;
    let crashed = granted(&*backend, &setting.short_reader(&name)).await;
    backend.release(&inside, NOW).await.unwrap();
    let writer = client.lock(&name).wait(setting.patience()).acquire().await.unwrap();
    let took = SystemEnv.now().since(crashed.from);
    assert!(
        took >= setting.lease(),
        "a writer was granted {took:?} after a reader that did not release; its lease must end first"
    );
    writer.release().await.unwrap();
}

async fn a_writer_waits_for_the_last_reader(setting: &Setting) {
    let (one, (other, mut waits)) = (setting.client().await, setting.observed_client().await);
    let name = setting.name("job");
    let lease = setting.long_lease();
    let first = one.lock(&name).lease(lease).shared().acquire().await.unwrap();
    let second = one.lock(&name).lease(lease).shared().acquire().await.unwrap();
    let lock =
        other.lock(&name).wait(setting.promised().longest_poll * 2 + Duration::from_secs(10));
    let writer = tokio::spawn(lock.acquire());
    waits.reach(1).await;
    let token = second.token();
    first.release().await.unwrap();
    let still = other.lock(&name).try_acquire().await.unwrap();
    assert!(still.guard().is_none(), "a reader still holds, so no writer may be granted");
    let state = other.backend().inspect(&name).await.unwrap().expect("a lock that is held");
    assert_eq!(state.readers, Some(1), "one reader still holds: {state:?}");
    assert!(second.is_valid() && !writer.is_finished());
    second.release().await.unwrap();
    let writer =
        writer.await.unwrap().expect("the release of the last reader must serve the writer");
    assert!(writer.token() > token);
}

async fn a_wait_that_is_over_names_the_readers(setting: &Setting) {
    let (one, other) = (setting.client().await, setting.client().await);
    let name = setting.name("job");
    let reader = one.lock(&name).lease(setting.long_lease()).shared().acquire().await.unwrap();
    // Long enough for a heartbeat of the first queue entry.
    let error = other.lock(&name).wait(Duration::from_secs(3)).acquire().await.unwrap_err();
    let Some(Blocked::Busy(busy)) = error.blocked() else { panic!("{error:?}") };
    let holder = busy.holder.as_ref().expect("`Busy` must name the holder");
    assert_eq!((holder.owner, holder.is_unreadable()), (OwnerId::READERS, false));
    assert_eq!(busy.token, reader.token());
}

async fn a_release_serves_all_waiting_readers(setting: &Setting) {
    let name = setting.name("job");
    let holder = setting.connect().await;
    let grant = granted(&*holder, &setting.request(&name)).await;
    let backends = join_all((0..4).map(|_| setting.connect())).await;
    let mut waiting = Vec::new();
    for backend in &backends {
        let request = setting.reader(&name);
        let (entry, busy) = enqueued(&**backend, &request).await;
        waiting.push((backend, request, entry, busy));
    }
    // No reader releases before all of them hold.
    let all = join_all(waiting.iter_mut().map(|(backend, request, entry, busy)| {
        served(&***backend, request, &mut **entry, busy.clone())
    }));
    let release = async { holder.release(&grant, NOW).await.unwrap() };
    let limit = setting.promised().longest_poll * 2 + Duration::from_secs(10);
    let (grants, _) = tokio::time::timeout(limit, async { tokio::join!(all, release) })
        .await
        .expect("one release must serve all waiting readers");
    assert!(grants.iter().all(|reader| reader.token > grant.token));
    refused(&*holder, &setting.request(&name)).await;
}

async fn no_reader_passes_a_waiting_writer(setting: &Setting) {
    let name = setting.name("job");
    let (holder, waiter, third) =
        (setting.connect().await, setting.connect().await, setting.connect().await);
    let inside = granted(&*holder, &setting.reader(&name)).await;
    let request = setting.request(&name);
    let (mut entry, busy) = enqueued(&*waiter, &request).await;
    refused(&*third, &setting.reader(&name)).await;
    let behind = setting.reader(&name);
    let (mut late, late_busy) = enqueued(&*third, &behind).await;
    holder.release(&inside, NOW).await.unwrap();
    refused(&*third, &setting.reader(&name)).await;
    let writer = served(&*waiter, &request, &mut *entry, busy).await;
    waiter.release(&writer, NOW).await.unwrap();
    let reader = served(&*third, &behind, &mut *late, late_busy).await;
    assert!(reader.token > writer.token);
}

/// At any time a reader holds, and another one comes.
async fn readers_in_a_loop_do_not_starve_a_writer(setting: &Setting) {
    // So many readers may pass a waiting writer.
    const MOST: usize = 20;
    let name = setting.name("job");
    let (writers, mut writing) = setting.observed_client().await;
    let mut inside =
        setting.client().await.lock(&name).shared().acquire().await.expect("a free lock");
    for turn in 1..=5 {
        let lock = writers.lock(&name).wait(setting.patience() + setting.long_lease());
        let writer = tokio::spawn(lock.acquire());
        writing.reach(turn).await;
        let mut passed = 0;
        let waiting = loop {
            let (client, mut waits) = setting.observed_client().await;
            let mut reader = Box::pin(client.lock(&name).shared().acquire());
            tokio::select! {
                guard = &mut reader => {
                    let before = std::mem::replace(&mut inside, guard.expect("a reader's lock"));
                    before.release().await.unwrap();
                    passed += 1;
                    assert!(passed < MOST, "{MOST} readers passed a waiting writer");
                }
                () = waits.reach(1) => break reader,
            }
        };
        inside.release().await.unwrap();
        let guard = writer.await.unwrap().expect("the writer is before the waiting reader");
        guard.release().await.unwrap();
        inside = waiting.await.expect("the reader is served after the writer");
    }
    inside.release().await.unwrap();
}

async fn a_writer_that_gives_up_lets_the_readers_behind_it_in(setting: &Setting) {
    let name = setting.name("job");
    let (holder, waiter, third) =
        (setting.connect().await, setting.connect().await, setting.connect().await);
    granted(&*holder, &setting.reader(&name)).await;
    let (writer, _) = enqueued(&*waiter, &setting.request(&name)).await;
    let behind = setting.reader(&name);
    let (mut entry, busy) = enqueued(&*third, &behind).await;
    writer.leave().await.unwrap();
    let served = served(&*third, &behind, &mut *entry, busy);
    let limit = setting.promised().longest_poll * 2 + Duration::from_secs(10);
    let served = tokio::time::timeout(limit, served).await;
    assert!(
        served.is_ok(),
        "the writer before it gave up, and the reader was not served within {limit:?}"
    );
}
