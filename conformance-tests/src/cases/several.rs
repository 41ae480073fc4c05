//! Re-entry, several locks, semaphores and elections: the core makes them of plain locks, so they must hold on every
//! store.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use lock_core::{Blocked, LockClient, LockName};

use super::{always, cases, processes};
use crate::{
    child::{Child, Deed},
    setting::{Setting, eventually},
};

cases! {
    "S4" only_the_last_guard_of_a_hold_releases_it always;
    "S1" all_of_two_in_opposite_orders_both_finish always;
    "S6" all_that_fails_leaves_nothing always;
    "S6" any_keeps_one_and_leaves_no_place always;
    "S6" cancelled_waits_for_a_permit_leave_nothing always;
    "S1" a_semaphore_has_as_many_holders_as_permits always;
    "S1" processes_share_the_permits_of_a_semaphore processes;
    "L1" a_killed_holders_permit_is_free_within_its_lease processes;
    "S2" terms_of_an_election_rise always;
}

/// Waits until nobody holds the name or has a place there.
async fn left_alone(setting: &Setting, client: &LockClient, name: impl AsRef<str>) {
    let name = LockName::new(name).unwrap();
    let what = format!("{name} to be free, without a place");
    eventually(&what, setting.patience(), || async {
        let state = client.backend().inspect(&name).await.unwrap();
        let (holder, waiting) = state.map_or((None, None), |state| (state.holder, state.waiting));
        (holder.is_none() && waiting.unwrap_or(0) == 0).then_some(())
    })
    .await;
}

async fn only_the_last_guard_of_a_hold_releases_it(setting: Setting) {
    let (client, other) = (setting.client().await, setting.client().await);
    let name = setting.name("job");
    let first = client.lock(&name).lease(setting.long_lease()).acquire().await.unwrap();
    let second = first.reenter().unwrap();
    first.release().await.unwrap();
    assert!(other.lock(&name).try_acquire().await.unwrap().guard().is_none(), "it is still held");
    assert!(second.is_valid());
    second.release().await.unwrap();
    assert!(other.lock(&name).try_acquire().await.unwrap().guard().is_some(), "it is free");
}

async fn all_of_two_in_opposite_orders_both_finish(setting: Setting) {
    const TIMES: usize = 20;
    let names = ["one", "two"].map(|part| setting.name(part));
    let inside = AtomicUsize::new(0);
    let rounds = |client: LockClient, backwards: bool| {
        let (names, inside) = (&names, &inside);
        async move {
            for _ in 0..TIMES {
                let mut locks: Vec<_> = names.iter().map(|name| client.lock(name)).collect();
                if backwards {
                    locks.reverse();
                }
                let guards = lock_core::all(locks).acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "both are inside");
                tokio::task::yield_now().await;
                assert!(guards.is_valid());
                inside.fetch_sub(1, Ordering::SeqCst);
                guards.release().await.unwrap();
            }
        }
    };
    let (one, two) = (setting.client().await, setting.client().await);
    let both = join_all([rounds(one, false), rounds(two, true)]);
    let ended = tokio::time::timeout(Duration::from_secs(60), both).await;
    assert!(ended.is_ok(), "they wait for each other");
}

async fn all_that_fails_leaves_nothing(setting: Setting) {
    let (client, other) = (setting.client().await, setting.client().await);
    let names = ["1", "2", "3"].map(|part| setting.name(part));
    let held = other.lock(&names[1]).lease(setting.long_lease()).acquire().await.unwrap();
    let locks = names.each_ref().map(|name| client.lock(name).lease(setting.long_lease()));
    let error = lock_core::all(locks).wait(Duration::from_secs(2)).acquire().await.unwrap_err();
    assert!(matches!(error.blocked(), Some(Blocked::Busy(_))), "{error:?}");
    held.release().await.unwrap();
    for name in &names {
        left_alone(&setting, &other, name).await;
    }
}

async fn any_keeps_one_and_leaves_no_place(setting: Setting) {
    let (holder, client) = (setting.client().await, setting.client().await);
    let names = ["a", "b", "c", "d"].map(|part| setting.name(part));
    let locks = |client: &LockClient| {
        names.each_ref().map(|name| client.lock(name).lease(setting.long_lease()))
    };
    let first = lock_core::any(locks(&client)).acquire().await.unwrap();
    assert_eq!(*first.name(), names[0], "the first that is free");
    let held = join_all(locks(&holder)[1..].iter().map(|lock| lock.clone().acquire())).await;
    let waiter = setting.client().await;
    let waiting = tokio::spawn(lock_core::any(locks(&waiter)).acquire());
    // Until it has a place, where the store has queues.
    if setting.promised().fair {
        eventually("a place in each queue", setting.patience(), || async {
            let places = names.iter().map(|name| client.backend().inspect(name));
            let waited = |state: lock_core::LockState| state.waiting.unwrap_or(0) > 0;
            join_all(places)
                .await
                .into_iter()
                .all(|state| state.unwrap().is_some_and(waited))
                .then_some(())
        })
        .await;
    }
    first.release().await.unwrap();
    let kept = tokio::time::timeout(setting.patience(), waiting).await.expect("it is served");
    let kept = kept.unwrap().unwrap();
    assert_eq!(*kept.name(), names[0]);
    drop(held);
    for name in &names[1..] {
        left_alone(&setting, &client, name).await;
    }
    assert!(kept.is_valid());
}

async fn cancelled_waits_for_a_permit_leave_nothing(setting: Setting) {
    let (holder, client) = (setting.client().await, setting.client().await);
    let name = setting.name("pool");
    let pool = |client: &LockClient| client.semaphore(&name, 2).lease(setting.long_lease());
    let held = join_all([pool(&holder).acquire(), pool(&holder).acquire()]).await;
    for wait in [Duration::ZERO, Duration::from_secs(2)] {
        let error = pool(&client).wait(wait).acquire().await.unwrap_err();
        assert!(matches!(error.blocked(), Some(Blocked::Busy(_))), "{error:?}");
    }
    drop(held);
    for part in ["", "/0", "/1"] {
        left_alone(&setting, &holder, format!("{name}{part}")).await;
    }
}

async fn a_semaphore_has_as_many_holders_as_permits(setting: Setting) {
    const PERMITS: usize = 3;
    let name = setting.name("pool");
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let clients = join_all((0..5).map(|_| setting.client())).await;
    join_all(clients.iter().map(|client| {
        let (name, inside, most, setting) = (&name, &inside, &most, &setting);
        async move {
            for _ in 0..3 {
                let permit = client.semaphore(name, PERMITS as u32).acquire().await.unwrap();
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // The first ones stay until all permits are in use.
                eventually("all permits in use", setting.patience(), || async {
                    (most.load(Ordering::SeqCst) >= PERMITS).then_some(())
                })
                .await;
                // Another one would be seen now.
                tokio::time::sleep(Duration::from_millis(20)).await;
                most.fetch_max(inside.load(Ordering::SeqCst), Ordering::SeqCst);
                assert!(permit.is_valid());
                inside.fetch_sub(1, Ordering::SeqCst);
                permit.release().await.unwrap();
            }
        }
    }))
    .await;
    assert_eq!(most.into_inner(), PERMITS, "holders at a time, at most");
}

async fn processes_share_the_permits_of_a_semaphore(setting: Setting) {
    const PERMITS: u32 = 2;
    let name = setting.name("pool");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let deed = || Deed::Enter { folder: path.to_owned(), permits: PERMITS, times: 4 };
    let lease = setting.long_lease();
    let mut children: Vec<_> =
        (0..4).map(|_| Child::start(&setting, &name, lease, deed())).collect();
    let said = join_all(children.iter_mut().map(Child::says)).await;
    let most = said.iter().map(|most| most.parse::<u32>().unwrap()).max();
    assert_eq!(most, Some(PERMITS), "holders at a time, at most: {said:?}");
}

async fn a_killed_holders_permit_is_free_within_its_lease(setting: Setting) {
    let name = setting.name("pool");
    let lease = setting.lease() * 2;
    let mut child = Child::start(&setting, &name, lease, Deed::HoldPermit);
    let token = child.held().await;
    let client = setting.client().await;
    let pool = || client.semaphore(&name, 1);
    assert!(pool().try_acquire().await.unwrap().guard().is_none(), "it holds");
    let killed = child.kill().await;
    let permit = pool().wait(setting.patience() + lease).acquire().await.unwrap();
    assert!(permit.token() > token);
    let promised = setting.promised();
    let bound = lease + promised.lease_step + promised.expiry_slack + promised.longest_poll;
    let slack = Duration::from_secs(2);
    assert!(killed.elapsed() <= bound + slack, "free after {:?}", killed.elapsed());
}

async fn terms_of_an_election_rise(setting: Setting) {
    let name = setting.name("chief");
    let terms = Arc::new(Mutex::new(Vec::new()));
    let candidates = join_all((0..3).map(|_| setting.client())).await;
    join_all(candidates.iter().map(|client| {
        let (name, terms) = (&name, &terms);
        async move {
            for _ in 0..4 {
                let leader = client.election(name).campaign().await.unwrap();
                terms.lock().unwrap().push(leader.token());
                tokio::task::yield_now().await;
                assert!(leader.is_valid());
                leader.release().await.unwrap();
            }
        }
    }))
    .await;
    let terms = terms.lock().unwrap();
    assert_eq!(terms.len(), 12);
    assert!(terms.is_sorted_by(|a, b| a < b), "{terms:?}");
}
