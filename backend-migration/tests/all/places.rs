//! Phase `Both` while others hold one of its stores: who wakes a place, what it costs, and why the stores
//! are taken in one order.

use std::sync::Arc;

use crate::support::faulty::Faulty;
use crate::support::two::{LEASE, Two, both, granted, name, request};
use lock_core::{Backend as _, Enqueued, LockClient, Memory, ReleaseOptions, Signal};

/// A waiter is woken by the store that it waits for; the other store's lease may meanwhile be lost.
#[tokio::test]
async fn a_place_is_woken_by_either_store_and_lost_with_the_first() {
    let two = Two::new().await;
    let first = granted(&two.stores[0].memory, 8).await;
    let second = granted(&two.stores[1].memory, 9).await;
    let waiting = request(1);
    let Enqueued::Waiting(mut turn, _) = two.both.enqueue(&waiting).await.unwrap() else {
        panic!("both stores are held");
    };
    two.stores[0].memory.release(&first, ReleaseOptions::default()).await.unwrap();
    assert!(matches!(turn.next().await, Signal::Recheck));
    assert!(two.both.try_acquire(&waiting).await.unwrap().granted().is_none());
    two.stores[1].memory.release(&second, ReleaseOptions::default()).await.unwrap();
    assert!(matches!(turn.next().await, Signal::Recheck));
    let grant = two.both.try_acquire(&waiting).await.unwrap().granted().unwrap();
    drop(turn);
    two.both.release(&grant, ReleaseOptions::default()).await.unwrap();
    two.all_free().await;

    let second = granted(&two.stores[1].memory, 10).await;
    let waiting = request(2);
    let Enqueued::Waiting(mut turn, _) = two.both.enqueue(&waiting).await.unwrap() else {
        panic!("the second store is held");
    };
    two.stores[0].memory.force_release(&name()).await.unwrap();
    let mut later = waiting.clone();
    later.sent = later.sent + LEASE / 2;
    two.both.try_acquire(&later).await.unwrap_err();
    // Who asks all the same takes nothing.
    two.both.try_acquire(&later).await.unwrap_err();
    assert!(two.is_free(0).await);
    assert!(matches!(turn.next().await, Signal::Lost(_)));
    turn.leave().await.unwrap();
    two.all_but_the_second(&second).await;
    let state = two.stores[1].memory.inspect(&name()).await.unwrap().unwrap();
    assert_eq!(state.waiting, Some(0), "a place is left behind");
}

/// The overhead: what each store alone would be asked, and one raise where their clocks want it.
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

/// The mutant of the fixed order: two clients that take the stores each in another order.
#[tokio::test]
async fn without_the_fixed_order_two_waiters_would_block_each_other() {
    for agree in [true, false] {
        let memories = [Memory::new(), Memory::new()];
        let client = |identities: [&'static str; 2]| {
            let store = |side: usize| {
                let faulty = Faulty::of(&memories[side]);
                faulty.rename(identities[side]);
                Arc::new(faulty)
            };
            [store(0), store(1)]
        };
        let one = both(&client(["a", "b"])).await;
        let two = both(&client(if agree { ["a", "b"] } else { ["b", "a"] })).await;
        // Each takes what it takes first; then each waits for the other's.
        let [first, second] = [request(1), request(2)];
        let held = [granted(&memories[0], 8).await, granted(&memories[1], 9).await];
        let mut turns = Vec::new();
        for (migration, request) in [(&one, &first), (&two, &second)] {
            match migration.enqueue(request).await.unwrap() {
                Enqueued::Waiting(turn, _) => turns.push(turn),
                other => panic!("{other:?}"),
            }
        }
        for (memory, grant) in memories.iter().zip(&held) {
            memory.release(grant, ReleaseOptions::default()).await.unwrap();
        }
        let mut grants = 0;
        for _ in 0..4 {
            for (migration, request) in [(&one, &first), (&two, &second)] {
                let answer = migration.try_acquire(request).await.unwrap();
                grants += usize::from(answer.granted().is_some());
            }
        }
        assert_eq!(grants > 0, agree, "{grants} grants");
    }
}
