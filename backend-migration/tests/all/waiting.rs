//! Phase `Both` while others hold one of its stores: what wakes a waiter, what a lock costs, and
//! why the stores are taken in one order.

use std::sync::Arc;

use crate::support::faulty::Faulty;
use crate::support::two::{LEASE, Two, both, granted, name, request, waits};
use lock_core::{Backend as _, LockClient, Memory, ReleaseOptions, Signal};

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
