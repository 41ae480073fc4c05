//! Phase `Both` while one of its stores fails: nothing is left behind, nobody holds beside another, and
//! tokens rise.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/faulty.rs"]
mod faulty;

use std::{sync::Arc, time::Duration};

use faulty::{Fault, Faulty};
use lock_core::{
    Attempt, Backend, Blocked, Enqueued, Env as _, ErrorKind, FencingToken, Grant, LockClient,
    LockName, Memory, Migration, Outcome, OwnerId, OwnerLabel, Phase, Release, Renewal, Request,
    Signal, SystemEnv,
};

const LEASE: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);

fn name() -> LockName {
    LockName::new("job").unwrap()
}

fn request(owner: u128) -> Request {
    let label = OwnerLabel::new("test").unwrap();
    Request::new(name(), OwnerId::from_bits(owner), label, LEASE, SystemEnv.now())
}

/// Two stores, the first and the second in the order of acquisition, and a migration over them.
struct Two {
    stores: [Arc<Faulty>; 2],
    both: Arc<Migration>,
}

impl Two {
    async fn new() -> Self {
        // Identities of their own: by those of the memories 10 would come before 9.
        let stores = ["first", "second"].map(|identity| Arc::new(Faulty::named(identity)));
        let both = both(&stores).await;
        Self { stores, both }
    }

    /// From now on the second store's tokens are ahead, as with a clock that is: the first is raised.
    async fn second_is_ahead(&self) -> FencingToken {
        let mut early = request(7);
        let ahead = SystemEnv.wall_micros() + 5_000_000;
        early.floor = FencingToken::new(ahead).unwrap();
        let memory = &self.stores[1].memory;
        let grant = memory.try_acquire(&early).await.unwrap().granted().unwrap();
        memory.release(&grant, Release::default()).await.unwrap();
        grant.token
    }

    /// Whether the store has no holder.
    async fn is_free(&self, side: usize) -> bool {
        let state = self.stores[side].memory.inspect(&name()).await.unwrap();
        state.is_none_or(|state| state.holder.is_none())
    }

    async fn all_free(&self) {
        let free = async {
            for side in 0..2 {
                while !self.is_free(side).await {
                    tokio::task::yield_now().await;
                }
            }
        };
        // Far from the lease, which is the bound of what is left behind.
        tokio::time::timeout(LEASE / 2, free).await.expect("a store is not free");
        assert!(self.stores.iter().all(|store| store.spent()), "a planted fault did not happen");
    }
}

async fn both(stores: &[Arc<Faulty>; 2]) -> Arc<Migration> {
    let [old, new] = stores.clone().map(|store| store as Arc<dyn Backend>);
    Arc::new(Migration::new(old, new, Phase::Both).await.unwrap())
}

async fn granted(store: &dyn Backend, owner: u128) -> Grant {
    store.try_acquire(&request(owner)).await.unwrap().granted().unwrap()
}

#[tokio::test]
async fn a_second_store_that_fails_leaves_the_first_free_at_once() {
    for fault in [Fault::Refused(ErrorKind::Unavailable), Fault::Late, Fault::Quarantined] {
        let two = Two::new().await;
        two.stores[1].next("acquire", fault);
        let answer = two.both.try_acquire(&request(1)).await;
        assert!(!matches!(answer, Ok(Attempt::Granted(_))), "{answer:?}");
        assert_eq!(matches!(answer, Ok(Attempt::Quarantined(_))), fault == Fault::Quarantined);
        two.all_free().await;
        granted(&*two.both, 2).await;
    }
}

#[tokio::test]
async fn a_quarantine_of_either_store_is_told_and_waited_for() {
    for side in 0..2 {
        let two = Two::new().await;
        let client = LockClient::new(two.both.clone());
        two.stores[side].next("acquire", Fault::Quarantined);
        let error = client.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
        assert!(matches!(error.blocked(), Some(Blocked::Quarantined(_))), "{error}");
        two.all_free().await;
        two.stores[side].next("acquire", Fault::Quarantined);
        two.stores[side].next("enqueue", Fault::Quarantined);
        two.stores[side].next("enqueue", Fault::Quarantined);
        let guard = client.lock("job").wait(LONG).acquire().await.unwrap();
        guard.release().await.unwrap();
        two.all_free().await;
    }
}

#[tokio::test]
async fn a_raise_that_fails_gives_both_back_and_says_why() {
    for (fault, kind) in [
        (Fault::Refused(ErrorKind::InvalidInput), ErrorKind::Config),
        (Fault::Refused(ErrorKind::NotHeld), ErrorKind::Unavailable),
        (Fault::Refused(ErrorKind::Unavailable), ErrorKind::Unavailable),
        (Fault::Unheard, ErrorKind::Timeout),
    ] {
        let two = Two::new().await;
        two.second_is_ahead().await;
        two.stores[0].next("raise", fault);
        let error = two.both.try_acquire(&request(1)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        two.all_free().await;
    }
}

/// Clocks that differ too much are no reason to ask again and again.
#[tokio::test]
async fn a_store_whose_clock_is_far_behind_is_told_at_once() {
    let two = Two::new().await;
    let client = LockClient::new(two.both.clone());
    two.stores[1].next("acquire", Fault::Refused(ErrorKind::InvalidInput));
    let error = client.lock("job").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("clock"), "{error}");
    two.all_free().await;
}

/// The release of the first half has no answer and comes late: it must not free a later grant.
#[tokio::test]
async fn a_late_release_frees_no_later_grant() {
    for waiting in [false, true] {
        let two = Two::new().await;
        let held = granted(&two.stores[1].memory, 9).await;
        let client = LockClient::new(two.both.clone());
        if waiting {
            // The attempt before any place is refused as it should be; then the place's own fails.
            two.stores[0].next("release", Fault::Fine);
            two.stores[1].next("enqueue", Fault::Refused(ErrorKind::Unavailable));
        }
        two.stores[0].next("release", Fault::Late);
        let lock = client.lock("job").lease(LEASE).wait(LONG);
        let waiter = tokio::spawn(lock.acquire());
        while !two.stores[0].spent() {
            tokio::task::yield_now().await;
        }
        two.stores[1].memory.release(&held, Release::default()).await.unwrap();
        let guard = waiter.await.unwrap().unwrap();
        two.stores[0].deliver().await;
        assert!(!two.is_free(0).await, "the late release has freed the lock");
        let answers = two.stores[0].memory.inspect(&name()).await.unwrap().unwrap();
        assert_eq!(answers.token, guard.token());
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn answers_that_are_lost_cost_time_only() {
    for operation in ["acquire", "raise", "release", "abandon"] {
        for side in 0..2 {
            if operation == "raise" && side == 1 {
                continue;
            }
            let two = Two::new().await;
            two.second_is_ahead().await;
            let client = LockClient::new(two.both.clone());
            if operation == "abandon" {
                two.stores[0].next("acquire", Fault::Unheard);
            }
            two.stores[side].next(operation, Fault::Unheard);
            let mut last = FencingToken::ZERO;
            for _ in 0..3 {
                let guard = client.lock("job").lease(LEASE).wait(LONG).acquire().await.unwrap();
                assert!(guard.token() > last, "{operation} {side}");
                last = guard.token();
                guard.release().await.unwrap();
            }
            two.all_free().await;
        }
    }
}

#[tokio::test]
async fn a_release_that_failed_in_one_store_is_repeated_and_is_no_loss() {
    for side in 0..2 {
        for fault in [Fault::Refused(ErrorKind::Unavailable), Fault::Unheard] {
            let two = Two::new().await;
            let client = LockClient::new(two.both.clone());
            let guard = client.lock("job").lease(LEASE).acquire().await.unwrap();
            two.stores[side].next("release", fault);
            guard.release().await.unwrap();
            two.all_free().await;
            // By hand: the repeat has released what was left, the one after that nothing.
            let grant = granted(&*two.both, 1).await;
            two.stores[side].next("release", Fault::Refused(ErrorKind::Unavailable));
            two.both.release(&grant, Release::default()).await.unwrap_err();
            for expected in [Outcome::Released, Outcome::NotHeld] {
                let released = two.both.release(&grant, Release::default()).await.unwrap();
                assert_eq!(released.outcome, expected);
            }
        }
    }
}

#[tokio::test]
async fn a_renewal_that_one_store_does_not_answer_is_no_loss() {
    for side in 0..2 {
        let two = Two::new().await;
        let grants = [granted(&*two.both, 1).await];
        let batch: Vec<_> = grants.iter().collect();
        two.stores[side].next("renew", Fault::Late);
        let answers = two.both.renew(&batch, SystemEnv.now()).await;
        assert!(matches!(answers[..], [Renewal::Unknown(_)]), "{answers:?}");
        let answers = two.both.renew(&batch, SystemEnv.now()).await;
        assert!(matches!(answers[..], [Renewal::Renewed { .. }]), "{answers:?}");
    }
}

/// The holder has been promised the time, and may be in the middle of its work.
#[tokio::test]
async fn what_is_left_of_a_lock_that_one_store_has_lost_keeps_others_out() {
    for side in 0..2 {
        let two = Two::new().await;
        let ours = granted(&*two.both, 1).await;
        two.stores[side].memory.force_release(&name()).await.unwrap();
        let answers = two.both.renew(&[&ours], SystemEnv.now()).await;
        assert!(matches!(answers[..], [Renewal::Lost(_)]), "{answers:?}");
        let other = both(&two.stores).await;
        let attempt = other.try_acquire(&request(2)).await.unwrap();
        assert!(matches!(attempt, Attempt::Busy(_)), "{attempt:?}");
        assert!(!two.is_free(1 - side).await);
    }
}

/// A waiter that holds the first store renews it while the second is held by another for longer than
/// the lease, and gives it up at its deadline.
#[tokio::test]
async fn the_first_store_is_kept_while_the_second_is_waited_for_and_given_up_in_time() {
    let two = Two::new().await;
    let held = granted(&two.stores[1].memory, 9).await;
    let client = LockClient::new(two.both.clone());
    let lease = Duration::from_millis(400);
    let lock = client.lock("job").lease(lease).wait(lease * 4);
    let began = SystemEnv.now();
    let waiter = tokio::spawn(lock.acquire());
    // Three leases long the first store has the same grant.
    while two.is_free(0).await {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let token = async || two.stores[0].memory.inspect(&name()).await.unwrap().unwrap().token;
    let first = token().await;
    while SystemEnv.now().since(began) < lease * 3 {
        tokio::time::sleep(lease / 4).await;
        if SystemEnv.now().since(began) < lease * 3 {
            assert!(!two.is_free(0).await, "the first store was not renewed");
        }
    }
    assert_eq!(token().await, first);
    waiter.await.unwrap().unwrap_err();
    two.all_but_the_second(&held).await;
}

impl Two {
    async fn all_but_the_second(&self, held: &Grant) {
        while !self.is_free(0).await {
            tokio::task::yield_now().await;
        }
        let state = self.stores[1].memory.inspect(&name()).await.unwrap().unwrap();
        assert_eq!(state.holder.unwrap().owner, held.owner);
    }
}

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
    two.stores[0].memory.release(&first, Release::default()).await.unwrap();
    assert!(matches!(turn.next().await, Signal::Recheck));
    assert!(two.both.try_acquire(&waiting).await.unwrap().granted().is_none());
    two.stores[1].memory.release(&second, Release::default()).await.unwrap();
    assert!(matches!(turn.next().await, Signal::Recheck));
    let grant = two.both.try_acquire(&waiting).await.unwrap().granted().unwrap();
    drop(turn);
    two.both.release(&grant, Release::default()).await.unwrap();
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

/// The mutant of the write-back: a store that only says that it has raised a token.
#[tokio::test]
async fn without_the_write_back_tokens_would_go_back() {
    for honest in [true, false] {
        let two = Two::new().await;
        two.second_is_ahead().await;
        if !honest {
            two.stores[0].next("raise", Fault::Forgotten);
        }
        let grant = granted(&*two.both, 2).await;
        two.both.release(&grant, Release::default()).await.unwrap();
        let next = granted(&two.stores[0].memory, 3).await;
        assert_eq!(next.token > grant.token, honest);
    }
}

/// The mutant of the fixed order: two clients that take the stores each in another order.
#[tokio::test]
async fn without_the_fixed_order_two_waiters_would_block_each_other() {
    for agree in [true, false] {
        let memories = [Memory::new(), Memory::new()];
        let client = |identities: [&'static str; 2]| {
            let store = |side: usize| {
                let mut faulty = Faulty::of(&memories[side]);
                faulty.identity = Some(identities[side]);
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
            memory.release(grant, Release::default()).await.unwrap();
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
