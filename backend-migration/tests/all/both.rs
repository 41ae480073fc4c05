//! Two stores in memory as one, while others hold one of them.

use std::sync::Arc;

use backend_migration::{Migration, Phase};
use lock_core::{
    Attempt, Backend, Env as _, ErrorKind, FencingToken, LockClient, Memory, ReleaseOptions,
    ReleaseOutcome, Renewal, Signal, SystemEnv,
};

use crate::support::{
    faulty::Faulty,
    two::{LEASE, Two, both, granted, name, request, waits},
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
        // The tokens of one store are far ahead of those of the other.
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

/// The holder may want another lease than the older waiter that made the entry.
#[tokio::test]
async fn a_renewal_requests_the_holders_lease_in_both_stores() {
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
async fn a_repeat_keeps_the_token_and_one_store_twice_is_refused() {
    let (old, new) = (Memory::new(), Memory::new());
    let both = migration(&old, &new, Phase::Both).await;
    assert_eq!(granted(&*both, 1).await.token, granted(&*both, 1).await.token);
    let twice: [Arc<dyn Backend>; 2] = [Arc::new(old.clone()), Arc::new(old)];
    let [one, two] = twice;
    let refused = Migration::new(one, two, Phase::Both).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
}

#[tokio::test]
async fn phase_both_is_as_valid_as_its_shorter_half() {
    // The second store sets a shorter lease than requested, as a store with another longest lease.
    let limits = [("a", LEASE), ("b", LEASE / 2)];
    let [old, new] = limits
        .map(|(identity, limit)| Arc::new(Faulty::limited(identity, limit)) as Arc<dyn Backend>);
    let both = Migration::new(old, new, Phase::Both).await.unwrap();
    let grant = granted(&both, 1).await;
    assert!(grant.lease <= LEASE / 2, "{:?}", grant.lease);
}

/// A waiter is woken by the store that it waits for. While it waits for the second, its lease in
/// the first may be lost.
#[tokio::test]
async fn a_waiter_is_woken_by_either_store_and_lost_with_its_grant_in_the_first() {
    let two = Two::new().await;
    let first = granted(&two.stores[0].memory, 8).await;
    let second = granted(&two.stores[1].memory, 9).await;
    let waiting = request(1);
    let mut waiter = waits(&*two.both, &waiting).await;
    two.stores[0].memory.release(&first, ReleaseOptions::default()).await.unwrap();
    assert!(matches!(waiter.next().await, Signal::Recheck));
    assert!(two.both.try_acquire(&waiting).await.unwrap().granted().is_none());
    two.stores[1].memory.release(&second, ReleaseOptions::default()).await.unwrap();
    assert!(matches!(waiter.next().await, Signal::Recheck));
    let grant = two.both.try_acquire(&waiting).await.unwrap().granted().unwrap();
    drop(waiter);
    two.both.release(&grant, ReleaseOptions::default()).await.unwrap();
    two.all_free().await;

    let second = granted(&two.stores[1].memory, 10).await;
    let waiting = request(2);
    let mut waiter = waits(&*two.both, &waiting).await;
    two.stores[0].memory.force_release(&name()).await.unwrap();
    let mut later = waiting.clone();
    later.sent = later.sent + LEASE / 2;
    two.both.try_acquire(&later).await.unwrap_err();
    // Another attempt takes nothing.
    two.both.try_acquire(&later).await.unwrap_err();
    assert!(two.is_free(0).await);
    assert!(matches!(waiter.next().await, Signal::Lost(_)));
    waiter.leave().await.unwrap();
    two.all_but_the_second(&second).await;
    let state = two.stores[1].memory.inspect(&name()).await.unwrap().unwrap();
    assert_eq!(state.waiting, Some(0), "an entry is left behind");
}

/// The calls of each store alone, and one raise if their clocks differ.
#[tokio::test]
async fn a_lock_costs_both_stores_and_at_most_one_raise() {
    for ahead in [false, true] {
        let two = Two::new().await;
        if ahead {
            two.second_is_ahead().await;
        }
        let client = LockClient::new(two.both.clone());
        for store in &two.stores {
            store.calls();
        }
        let guard = client.lock("job").lease(LEASE).acquire().await.unwrap();
        let calls = [two.stores[0].calls(), two.stores[1].calls()];
        assert_eq!(calls[1], ["acquire"]);
        match &calls[0][..] {
            ["acquire", "raise"] => {}
            ["acquire"] => assert!(!ahead, "not raised"),
            other => panic!("{other:?}"),
        }
        guard.release().await.unwrap();
        for store in &two.stores {
            assert_eq!(store.calls(), ["release"]);
        }
    }
}

/// One process moves forward and the other back, so that their roles of the stores differ. With the
/// same order of acquisition they get on; with different orders (as if they knew different
/// identities) they would block each other.
#[tokio::test]
async fn the_fixed_order_prevents_a_deadlock_of_opposite_migrations() {
    for same_order in [true, false] {
        let memories = [Memory::new(), Memory::new()];
        let stores = |identities: [&'static str; 2]| {
            [0, 1].map(|side: usize| {
                let faulty = Faulty::of(&memories[side]);
                faulty.rename(identities[side]);
                Arc::new(faulty)
            })
        };
        let forward = both(&stores(["a", "b"])).await;
        let [first, second] = stores(if same_order { ["a", "b"] } else { ["b", "a"] });
        let back = both(&[second, first]).await;
        let held = [granted(&memories[0], 8).await, granted(&memories[1], 9).await];
        let requests = [(&forward, request(1)), (&back, request(2))];
        let mut waiters = Vec::new();
        for (migration, request) in &requests {
            waiters.push(waits(&***migration, request).await);
        }
        for (memory, grant) in memories.iter().zip(&held) {
            memory.release(grant, ReleaseOptions::default()).await.unwrap();
        }
        let mut grants = 0;
        for _ in 0..4 {
            for (migration, request) in &requests {
                let answer = migration.try_acquire(request).await.unwrap();
                grants += usize::from(answer.granted().is_some());
            }
        }
        assert_eq!(grants > 0, same_order, "{grants} grants");
    }
}
