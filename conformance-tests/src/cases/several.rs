//! Re-entry, all, any, semaphores and elections. The core makes them of plain locks, so they must
//! work on every store.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use lock_core::{Blocked, Guard, Lock, LockClient, LockName};

use super::cases;
use crate::setting::{Setting, eventually};

cases! {
    "S4" only_the_last_guard_of_a_hold_releases_it;
    "S1" all_of_two_in_opposite_orders_both_finish;
    "S6" all_that_fails_leaves_nothing;
    "S6" any_keeps_one_and_leaves_no_entry;
    "S6" cancelled_waits_for_a_permit_leave_nothing;
    "S1" a_semaphore_has_as_many_holders_as_permits;
    "S2" terms_of_an_election_rise;
}

/// Waits until the name has no holder and no queue entry.
async fn is_unused(setting: &Setting, client: &LockClient, name: impl AsRef<str>) {
    let name = LockName::new(name).unwrap();
    let what = format!("{name} has no holder and no queue entry");
    eventually(&what, setting.patience(), || async {
        let state = client.backend().inspect(&name).await.unwrap();
        let (holder, waiting) = state.map_or((None, None), |state| (state.holder, state.waiting));
        (holder.is_none() && waiting.unwrap_or(0) == 0).then_some(())
    })
    .await;
}

async fn only_the_last_guard_of_a_hold_releases_it(setting: &Setting) {
    let (client, other) = (setting.client().await, setting.client().await);
    let name = setting.name("job");
    let first = client.lock(&name).lease(setting.long_lease()).acquire().await.unwrap();
    let second = first.reenter().unwrap();
    setting.release(first).await.unwrap();
    let early = other.lock(&name).try_acquire().await.unwrap().guard();
    assert!(early.is_none(), "the second guard of the hold is left, so the lock must be held");
    assert!(second.is_valid());
    setting.release(second).await.unwrap();
    let after = other.lock(&name).try_acquire().await.unwrap().guard();
    assert!(after.is_some(), "the last guard was released, so the lock must be free");
}

async fn all_of_two_in_opposite_orders_both_finish(setting: &Setting) {
    // Rounds of each of two clients. The second is for `LEASEHOLD_SOAK=1`.
    const TIMES: [usize; 2] = [20, 100];
    // Longer than a slow store needs. Without this limit a deadlock would hang the case, without a
    // reason.
    const STUCK: Duration = Duration::from_secs(20);
    let times = TIMES[usize::from(std::env::var_os("LEASEHOLD_SOAK").is_some())];
    let names = ["one", "two"].map(|part| setting.name(part));
    let inside = AtomicUsize::new(0);
    let rounds = |client: LockClient, backwards: bool| {
        let (names, inside, setting) = (&names, &inside, setting);
        async move {
            for _ in 0..times {
                let mut locks: Vec<_> = names.iter().map(|name| client.lock(name)).collect();
                if backwards {
                    locks.reverse();
                }
                let guards = setting.all(locks, STUCK).await.expect("a deadlock of two `all`");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "both hold at the same time");
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

async fn all_that_fails_leaves_nothing(setting: &Setting) {
    let (client, other) = (setting.client().await, setting.client().await);
    let names = ["1", "2", "3"].map(|part| setting.name(part));
    let held = other.lock(&names[1]).lease(setting.long_lease()).acquire().await.unwrap();
    let locks = names.each_ref().map(|name| client.lock(name).lease(setting.long_lease()));
    let error = setting.all(locks.into(), Duration::from_secs(3)).await.unwrap_err();
    assert!(matches!(error.blocked(), Some(Blocked::Busy(_))), "{error:?}");
    held.release().await.unwrap();
    for name in &names {
        is_unused(setting, &other, name).await;
    }
}

async fn any_keeps_one_and_leaves_no_entry(setting: &Setting) {
    let (holder, client) = (setting.client().await, setting.client().await);
    let names = ["a", "b", "c", "d"].map(|part| setting.name(part));
    let locks = |client: &LockClient| {
        names.each_ref().map(|name| client.lock(name).lease(setting.long_lease())).to_vec()
    };
    let first = lock_core::any(locks(&client)).acquire().await.unwrap();
    assert_eq!(*first.name(), names[0], "`any` must take the first lock that is free");
    let held = join_all(locks(&holder).drain(1..).map(Lock::acquire)).await;
    let (waiter, mut waits) = setting.observed_client().await;
    let waiting = tokio::spawn({
        let (setting, locks) = (setting.clone(), locks(&waiter));
        async move { setting.any(locks).await }
    });
    waits.reach(4).await;
    first.release().await.unwrap();
    let kept = tokio::time::timeout(setting.patience(), waiting).await;
    let kept = kept.expect("`any` must be served after a release");
    let kept = kept.unwrap().unwrap();
    assert_eq!(*kept.name(), names[0]);
    // The other queue entries are withdrawn while their locks are held: they do not just expire, or
    // get the lock.
    let withdrawn = tokio::time::timeout(setting.patience(), waits.left(3)).await;
    assert!(withdrawn.is_ok(), "`any` has one lock, and did not withdraw its other queue entries");
    for name in &names[1..] {
        // The last of several nodes may get the request later, but before the entry would expire.
        eventually("the queue entry is withdrawn", Duration::from_secs(2), || async {
            let state = client.backend().inspect(name).await.unwrap().expect("a held name");
            (state.waiting.unwrap_or(0) == 0).then_some(())
        })
        .await;
    }
    drop(held);
    for name in &names[1..] {
        is_unused(setting, &client, name).await;
    }
    assert!(kept.is_valid());
}

async fn cancelled_waits_for_a_permit_leave_nothing(setting: &Setting) {
    let (holder, client) = (setting.client().await, setting.client().await);
    let name = setting.name("pool");
    let pool = |client: &LockClient| client.semaphore(&name, 2).lease(setting.long_lease());
    let held = join_all([pool(&holder).acquire(), pool(&holder).acquire()]).await;
    for wait in [Duration::ZERO, Duration::from_secs(3)] {
        let error = pool(&client).wait(wait).acquire().await.unwrap_err();
        assert!(matches!(error.blocked(), Some(Blocked::Busy(_))), "{error:?}");
    }
    drop(held);
    for part in ["", "/0", "/1"] {
        is_unused(setting, &holder, format!("{name}{part}")).await;
    }
}

async fn a_semaphore_has_as_many_holders_as_permits(setting: &Setting) {
    const PERMITS: usize = 3;
    let name = setting.name("pool");
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let clients = join_all((0..5).map(|_| setting.client())).await;
    let pool = |client: &LockClient| setting.semaphore(client, &name, PERMITS as u32);
    let held = join_all(clients[..PERMITS].iter().map(|client| pool(client).acquire())).await;
    let held: Vec<_> = held.into_iter().map(|permit| permit.expect("a free permit")).collect();
    let more = pool(&clients[PERMITS]).try_acquire().await.unwrap().guard();
    assert!(more.is_none(), "all {PERMITS} permits are in use, and one more was granted: {more:?}");
    for permit in held {
        permit.release().await.unwrap();
    }
    join_all(clients.iter().map(|client| {
        let (name, inside, most, setting) = (&name, &inside, &most, setting);
        async move {
            for _ in 0..3 {
                let permit =
                    setting.semaphore(client, name, PERMITS as u32).acquire().await.unwrap();
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // The first holders wait until all permits are in use.
                eventually("all permits are in use", setting.patience(), || async {
                    (most.load(Ordering::SeqCst) >= PERMITS).then_some(())
                })
                .await;
                // A holder without a permit would show now.
                tokio::time::sleep(Duration::from_millis(20)).await;
                most.fetch_max(inside.load(Ordering::SeqCst), Ordering::SeqCst);
                assert!(permit.is_valid());
                inside.fetch_sub(1, Ordering::SeqCst);
                permit.release().await.unwrap();
            }
        }
    }))
    .await;
    assert_eq!(most.into_inner(), PERMITS, "the most holders at the same time");
}

async fn terms_of_an_election_rise(setting: &Setting) {
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
