//! The answers of the reference backend to late, repeated and crossed requests.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Enqueued, Env as _, FencingToken, Grant, Init, Instant, LockName, Memory,
    Mode, OwnerId, OwnerLabel, ReleaseOptions, Renewal, Request,
};

use crate::support::SuspendableEnv;

const SECOND: Duration = Duration::from_secs(1);

/// A store whose clock only moves when the test says so.
fn store() -> (Memory, Arc<SuspendableEnv>) {
    let clock = SuspendableEnv::new();
    (Memory::with_env(clock.clone()), clock)
}

fn request(owner: u128, lease: Duration) -> Request {
    let name = LockName::new("job").unwrap();
    let label = OwnerLabel::new("test").unwrap();
    Request::new(name, OwnerId::from_bits(owner), label, lease, Instant::default())
}

async fn grant(memory: &Memory, request: &Request) -> Grant {
    memory.try_acquire(request).await.unwrap().granted().unwrap()
}

async fn holder(memory: &Memory) -> Option<u128> {
    let state = memory.inspect(&LockName::new("job").unwrap()).await.unwrap()?;
    state.holder.map(|holder| holder.owner.to_bits())
}

#[tokio::test(start_paused = true)]
async fn a_late_repeat_never_shortens_the_lease() {
    let (memory, clock) = store();
    let held = grant(&memory, &request(1, 10 * SECOND)).await;
    let again = grant(&memory, &request(1, SECOND)).await;
    assert_eq!(again.token, held.token);
    let mut short = held.clone();
    short.lease = SECOND;
    let renewed = memory.renew(&[&short], clock.now()).await;
    assert!(matches!(renewed[..], [Renewal::Renewed { .. }]));
    clock.suspend(9 * SECOND);
    assert_eq!(holder(&memory).await, Some(1));
    clock.suspend(SECOND);
    assert_eq!(holder(&memory).await, None);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_entry_is_not_handed_the_lock() {
    let (memory, clock) = store();
    grant(&memory, &request(1, SECOND)).await;
    let waiter = request(2, SECOND);
    let Enqueued::Waiting(_waiter, _) = memory.enqueue(&waiter).await.unwrap() else {
        panic!("two holders")
    };
    // The holder's lease ends in the very step of the clean-up.
    clock.suspend(SECOND);
    memory.abandon(&waiter).await.unwrap();
    assert_eq!(holder(&memory).await, None);
    let Attempt::Granted(_) = memory.try_acquire(&request(3, SECOND)).await.unwrap() else {
        panic!("something was left behind")
    };
}

#[tokio::test(start_paused = true)]
async fn a_late_request_does_not_lengthen_a_minimum_hold() {
    let (memory, clock) = store();
    let held = grant(&memory, &request(1, 10 * SECOND)).await;
    let keep = ReleaseOptions::new().with_keep(SECOND);
    memory.release(&held, keep).await.unwrap();
    let renewed = memory.renew(&[&held], clock.now()).await;
    assert!(matches!(renewed[..], [Renewal::Lost(_)]));
    let Attempt::Busy(_) = memory.try_acquire(&request(1, 10 * SECOND)).await.unwrap() else {
        panic!("a released owner was served again")
    };
    clock.suspend(SECOND);
    assert_eq!(holder(&memory).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_late_request_of_an_abandoned_owner_gets_no_entry() {
    let (memory, _clock) = store();
    let held = grant(&memory, &request(1, SECOND)).await;
    let late = request(2, SECOND);
    memory.abandon(&late).await.unwrap();
    let _waiter = memory.enqueue(&late).await.unwrap();
    memory.release(&held, ReleaseOptions::default()).await.unwrap();
    assert_eq!(holder(&memory).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_floor_is_checked_even_if_leases_may_have_any_length() {
    let (store, _) = store();
    for longest in [Duration::from_micros(u64::MAX), Duration::MAX] {
        let init = Init::new().with_longest_lease(longest);
        store.init(&init).await.unwrap();
        // An hour ahead of the clock.
        let floor = FencingToken::new(1_800_003_600_000_000).unwrap();
        let mut asked = request(1, SECOND);
        asked.floor = floor;
        let grant = store.try_acquire(&asked).await.unwrap().granted().unwrap();
        assert!(grant.token > floor);
        store.release(&grant, ReleaseOptions::default()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_sets_no_more_than_a_longest_lease_that_was_lowered() {
    let (memory, clock) = store();
    let mut held = grant(&memory, &request(1, SECOND)).await;
    let init = Init::new().with_longest_lease(2 * SECOND);
    memory.init(&init).await.unwrap();
    held.lease = 60 * SECOND;
    let renewed = memory.renew(&[&held], clock.now()).await;
    assert!(
        matches!(renewed[..], [Renewal::Renewed { lease, .. }] if lease == 2 * SECOND),
        "{renewed:?}"
    );
    clock.suspend(2 * SECOND);
    assert_eq!(holder(&memory).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_reader_whose_lease_is_over_makes_room_and_renews_nothing() {
    let (memory, clock) = store();
    let reader = |owner, lease| request(owner, lease).with_mode(Mode::Shared);
    let dead = grant(&memory, &reader(1, SECOND)).await;
    for owner in 2..=Mode::MOST_READERS as u128 {
        grant(&memory, &reader(owner, 10 * SECOND)).await;
    }
    let late = reader(5_000, 10 * SECOND);
    let Attempt::Busy(_) = memory.try_acquire(&late).await.unwrap() else {
        panic!("one reader above the most")
    };
    clock.suspend(SECOND);
    let renewed = memory.renew(&[&dead], clock.now()).await;
    assert!(matches!(renewed[..], [Renewal::Lost(_)]));
    grant(&memory, &late).await;
}
