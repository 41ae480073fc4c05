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
use lock_core::{Blocked, Guard, Lock, LockClient, LockName};

use super::{always, cases};
use crate::setting::{Setting, eventually};

cases! {
    "S4" only_the_last_guard_of_a_hold_releases_it always;
    "S1" all_of_two_in_opposite_orders_both_finish always;
    "S6" all_that_fails_leaves_nothing always;
    "S6" any_keeps_one_and_leaves_no_place always;
    "S6" cancelled_waits_for_a_permit_leave_nothing always;
    "S1" a_semaphore_has_as_many_holders_as_permits always;
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
    setting.release(first).await.unwrap();
    assert!(other.lock(&name).try_acquire().await.unwrap().guard().is_none(), "it is still held");
    assert!(second.is_valid());
    setting.release(second).await.unwrap();
    assert!(other.lock(&name).try_acquire().await.unwrap().guard().is_some(), "it is free");
}

async fn all_of_two_in_opposite_orders_both_finish(setting: Setting) {
    // Of each of two clients; and with `LEASEHOLD_SOAK=1`.
    const TIMES: [usize; 2] = [20, 100];
    // Longer than any that is only slow; a case that hangs would say nothing of the reason.
    const STUCK: Duration = Duration::from_secs(20);
    let times = TIMES[usize::from(std::env::var_os("LEASEHOLD_SOAK").is_some())];
    let names = ["one", "two"].map(|part| setting.name(part));
    let inside = AtomicUsize::new(0);
    let rounds = |client: LockClient, backwards: bool| {
        let (names, inside, setting) = (&names, &inside, &setting);
        async move {
            for _ in 0..times {
                let mut locks: Vec<_> = names.iter().map(|name| client.lock(name)).collect();
                if backwards {
                    locks.reverse();
                }
                let guards = setting.all(locks, STUCK).await.expect("they wait for each other");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "both are inside");
                tokio::task::yield_now().await;
                assert!(guards.iter().all(Guard::is_valid));
                inside.fetch_sub(1, Ordering::SeqCst);
                for guard in guards {
                    guard.release().await.unwrap();
                }
            }
        }
    };
    let (one, two) = (setting.client().await, setting.client().await);
    join_all([rounds(one, false), rounds(two, true)]).await;
}

async fn all_that_fails_leaves_nothing(setting: Setting) {
    let (client, other) = (setting.client().await, setting.client().await);
    let names = ["1", "2", "3"].map(|part| setting.name(part));
    let held = other.lock(&names[1]).lease(setting.long_lease()).acquire().await.unwrap();
    let locks = names.each_ref().map(|name| client.lock(name).lease(setting.long_lease()));
    let error = setting.all(locks.into(), Duration::from_secs(2)).await.unwrap_err();
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
        names.each_ref().map(|name| client.lock(name).lease(setting.long_lease())).to_vec()
    };
    let first = lock_core::any(locks(&client)).acquire().await.unwrap();
    assert_eq!(*first.name(), names[0], "the first that is free");
    let held = join_all(locks(&holder).drain(1..).map(Lock::acquire)).await;
    let (waiter, mut waits) = setting.observed_client().await;
    let waiting = tokio::spawn({
        let (setting, locks) = (setting.clone(), locks(&waiter));
        async move { setting.any(locks).await }
    });
    waits.reach(4).await;
    first.release().await.unwrap();
    let kept = tokio::time::timeout(setting.patience(), waiting).await.expect("it is served");
    let kept = kept.unwrap().unwrap();
    assert_eq!(*kept.name(), names[0]);
    // The other places are withdrawn while their locks are held: they do not just die, or get their turn.
    let withdrawn = tokio::time::timeout(setting.patience(), waits.left(3)).await;
    assert!(withdrawn.is_ok(), "places are kept");
    for name in &names[1..] {
        // Of several nodes the last may hear of it later; before a place would die.
        eventually("the place to be withdrawn", Duration::from_secs(1), || async {
            let state = client.backend().inspect(name).await.unwrap().expect("it is held");
            (state.waiting.unwrap_or(0) == 0).then_some(())
        })
        .await;
    }
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
                let permit =
                    setting.semaphore(client, name, PERMITS as u32).acquire().await.unwrap();
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
