//! Two stores in memory as one.

use std::{sync::Arc, time::Duration};

use backend_migration::{Migration, Phase};
use lock_core::{
    Attempt, Backend, Enqueued, Env as _, ErrorKind, FencingToken, LockClient, Memory,
    ReleaseOptions, ReleaseOutcome, Renewal, SystemEnv,
};
use tokio::task::JoinSet;

use crate::support::{
    faulty::Faulty,
    two::{LEASE, granted, name, request},
};

async fn is_free(store: &dyn Backend) -> bool {
    store.inspect(&name()).await.unwrap().is_none_or(|state| state.holder.is_none())
}

async fn migration(old: &Memory, new: &Memory, phase: Phase) -> Arc<Migration> {
    let [old, new] = [old, new].map(|store| Arc::new(store.clone()) as Arc<dyn Backend>);
    Arc::new(Migration::new(old, new, phase).await.unwrap())
}

#[tokio::test]
async fn a_grant_of_both_excludes_old_and_new_and_leaves_its_token_in_each() {
    for ahead_is_old in [true, false] {
        let (old, new) = (Memory::new(), Memory::new());
        // One store's tokens are far ahead of the other's.
        let ahead = if ahead_is_old { &old } else { &new };
        let mut early = request(1);
        early.floor = FencingToken::new(SystemEnv.wall_micros() + 5_000_000).unwrap();
        let far = ahead.try_acquire(&early).await.unwrap().granted().unwrap();
        ahead.release(&far, ReleaseOptions::default()).await.unwrap();

        let both = migration(&old, &new, Phase::Both).await;
        let grant = granted(&*both, 2).await;
        assert!(grant.token > far.token);
        for phase in [Phase::Old, Phase::New, Phase::Both] {
            let other = migration(&old, &new, phase).await;
            let attempt = other.try_acquire(&request(3)).await.unwrap();
            assert!(matches!(attempt, Attempt::Busy(_)), "{phase}: {attempt:?}");
            other.close().await;
        }
        let released = both.release(&grant, ReleaseOptions::default()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
        for (owner, store) in [(4, &old), (5, &new)] {
            assert!(granted(store, owner).await.token > grant.token);
        }
    }
}

#[tokio::test]
async fn a_refusal_by_either_store_leaves_the_other_free() {
    for held_is_old in [true, false] {
        let (old, new) = (Memory::new(), Memory::new());
        let (held, other) = if held_is_old { (&old, &new) } else { (&new, &old) };
        let grant = granted(held, 1).await;
        let both = migration(&old, &new, Phase::Both).await;
        for _ in 0..2 {
            assert!(both.try_acquire(&request(2)).await.unwrap().granted().is_none());
            assert!(is_free(other).await);
        }
        held.release(&grant, ReleaseOptions::default()).await.unwrap();
        granted(&*both, 2).await;
    }
}

#[tokio::test]
async fn a_loss_in_either_store_is_a_loss_and_keeps_the_other_shut() {
    for lost_is_old in [true, false] {
        let (old, new) = (Memory::new(), Memory::new());
        let both = migration(&old, &new, Phase::Both).await;
        let grant = granted(&*both, 1).await;
        let (lost, other) = if lost_is_old { (&old, &new) } else { (&new, &old) };
        lost.force_release(&name()).await.unwrap();
        let answers = both.renew(&[&grant], SystemEnv.now()).await;
        assert!(matches!(answers[..], [Renewal::Lost(_)]), "{answers:?}");
        // The holder has not been told yet: a process in the phase of the other store is to wait.
        for _ in 0..100 {
            assert!(!is_free(other).await);
            tokio::task::yield_now().await;
        }
    }
}

/// A place of an older waiter may bring a lock with another lease than the holder's.
#[tokio::test]
async fn a_renewal_asks_both_stores_for_the_lease_of_the_holder() {
    let (old, new) = (Memory::new(), Memory::new());
    let both = migration(&old, &new, Phase::Both).await;
    let mut grant = granted(&*both, 1).await;
    grant.lease = 2 * LEASE;
    let answers = both.renew(&[&grant], SystemEnv.now()).await;
    assert!(
        matches!(answers[..], [Renewal::Renewed { lease, .. }] if lease == 2 * LEASE),
        "{answers:?}"
    );
    for store in [&old, &new] {
        let holder = store.inspect(&name()).await.unwrap().unwrap().holder.unwrap();
        assert!(holder.remaining > LEASE);
    }
}

#[tokio::test]
async fn an_abandoned_owner_holds_nothing_in_either_store_and_never_will() {
    let (old, new) = (Memory::new(), Memory::new());
    let both = migration(&old, &new, Phase::Both).await;
    granted(&*both, 1).await;
    both.abandon(&request(1)).await.unwrap();
    assert!(is_free(&old).await && is_free(&new).await);
    assert!(both.try_acquire(&request(1)).await.unwrap().granted().is_none());
    assert!(is_free(&old).await && is_free(&new).await);
}

#[tokio::test]
async fn a_repeat_keeps_the_token_and_other_stores_are_refused() {
    let (old, new) = (Memory::new(), Memory::new());
    let both = migration(&old, &new, Phase::Both).await;
    assert_eq!(granted(&*both, 1).await.token, granted(&*both, 1).await.token);
    let twice: [Arc<dyn Backend>; 2] = [Arc::new(old.clone()), Arc::new(old)];
    let [one, two] = twice;
    let refused = Migration::new(one, two, Phase::Both).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
}

/// Roll forward and roll back at once: the roles differ, the order of acquisition does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_opposite_roles_exclude_each_other_and_all_get_on() {
    let (old, new) = (Memory::new(), Memory::new());
    let last = Arc::new(std::sync::Mutex::new(FencingToken::ZERO));
    let inside = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for number in 0..4 {
        let (from, to) = if number % 2 == 0 { (&old, &new) } else { (&new, &old) };
        let client = LockClient::new(migration(from, to, Phase::Both).await);
        let (last, inside) = (last.clone(), inside.clone());
        clients.spawn(async move {
            for _ in 0..5 {
                let lock = client.lock("job").lease(LEASE).wait(Duration::from_secs(60));
                let guard = lock.acquire().await.unwrap();
                assert!(!inside.swap(true, std::sync::atomic::Ordering::SeqCst));
                {
                    let mut last = last.lock().unwrap();
                    assert!(guard.token() > *last);
                    *last = guard.token();
                }
                inside.store(false, std::sync::atomic::Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
}

/// One goes forward and the other back, so that each calls the other's new store its old one.
#[tokio::test]
async fn fleets_that_roll_towards_each_other_do_not_block_each_other() {
    let stores = ["a", "b"].map(|identity| Arc::new(Faulty::named(identity)));
    let [a, b] = stores.clone().map(|store| store as Arc<dyn Backend>);
    let forth = Migration::new(a.clone(), b.clone(), Phase::Both).await.unwrap();
    let back = Migration::new(b, a, Phase::Both).await.unwrap();
    let held = [granted(&stores[0].memory, 8).await, granted(&stores[1].memory, 9).await];
    let (first, second) = (request(1), request(2));
    let mut waiters = Vec::new();
    for (migration, request) in [(&forth, &first), (&back, &second)] {
        match migration.enqueue(request).await.unwrap() {
            Enqueued::Waiting(waiter, _) => waiters.push(waiter),
            other => panic!("{other:?}"),
        }
    }
    for (store, grant) in stores.iter().zip(&held) {
        store.memory.release(grant, ReleaseOptions::default()).await.unwrap();
    }
    let mut grants = 0;
    for _ in 0..4 {
        for (migration, request) in [(&forth, &first), (&back, &second)] {
            grants +=
                usize::from(migration.try_acquire(request).await.unwrap().granted().is_some());
        }
    }
    assert!(grants > 0, "each holds what the other waits for");
}

#[tokio::test]
async fn phase_both_is_as_valid_as_its_shorter_half() {
    // The second store sets less than it is asked for, as one with a longest lease of its own.
    let limits = [("a", LEASE), ("b", LEASE / 2)];
    let [old, new] = limits
        .map(|(identity, limit)| Arc::new(Faulty::limited(identity, limit)) as Arc<dyn Backend>);
    let both = Migration::new(old, new, Phase::Both).await.unwrap();
    let grant = granted(&both, 1).await;
    assert!(grant.lease <= LEASE / 2, "{:?}", grant.lease);
}
