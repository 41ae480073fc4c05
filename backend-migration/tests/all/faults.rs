//! Phase `Both` while one of its stores fails: nothing is left behind, there are never two holders,
//! and tokens rise.

use std::{sync::Arc, time::Duration};

use crate::support::faulty::Fault;
use crate::support::two::{LEASE, Two, both, granted, name, request};
use lock_core::{
    Attempt, Backend, Blocked, Env as _, ErrorKind, FencingToken, LockClient, ReleaseOptions,
    ReleaseOutcome, Renewal, SystemEnv, TryAcquire,
};

const LONG: Duration = Duration::from_secs(60);

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
async fn a_quarantine_of_either_store_is_reported_and_waited_for() {
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
async fn after_a_failed_raise_both_are_released_and_the_error_says_why() {
    for (fault, kind) in [
        (Fault::Refused(ErrorKind::InvalidInput), ErrorKind::Config),
        (Fault::Refused(ErrorKind::NotHeld), ErrorKind::Unavailable),
        (Fault::Refused(ErrorKind::Unavailable), ErrorKind::Unavailable),
        (Fault::AnswerLost, ErrorKind::Timeout),
    ] {
        let two = Two::new().await;
        two.second_is_ahead().await;
        two.stores[0].next("raise", fault);
        let error = two.both.try_acquire(&request(1)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        two.all_free().await;
    }
}

/// If the clocks differ too much, retries do not help.
#[tokio::test]
async fn a_store_whose_clock_is_far_behind_is_reported_at_once() {
    let two = Two::new().await;
    let client = LockClient::new(two.both.clone());
    two.stores[1].next("acquire", Fault::Refused(ErrorKind::InvalidInput));
    let error = client.lock("job").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("clock"), "{error}");
    two.all_free().await;
}

/// The release in the first store has no answer and arrives late. It must not free a later grant.
#[tokio::test]
async fn a_late_release_frees_no_later_grant() {
    for waiting in [false, true] {
        let two = Two::new().await;
        let held = granted(&two.stores[1].memory, 9).await;
        let client = LockClient::new(two.both.clone());
        if waiting {
            // The attempt without an entry is refused as it should be. Then the enqueue fails.
            two.stores[0].next("release", Fault::Fine);
            two.stores[1].next("enqueue", Fault::Refused(ErrorKind::Unavailable));
        }
        two.stores[0].next("release", Fault::Late);
        let lock = client.lock("job").lease(LEASE).wait(LONG);
        let waiter = tokio::spawn(lock.acquire());
        while !two.stores[0].spent() {
            tokio::task::yield_now().await;
        }
        two.stores[1].memory.release(&held, ReleaseOptions::default()).await.unwrap();
        let guard = waiter.await.unwrap().unwrap();
        two.stores[0].deliver().await;
        assert!(!two.is_free(0).await, "the late release has freed the lock");
        let answers = two.stores[0].memory.inspect(&name()).await.unwrap().unwrap();
        assert_eq!(answers.token, guard.token());
        guard.release().await.unwrap();
    }
}

/// A store repeats an attempt by itself, and its first try is carried out after everything else.
/// Also with one store alone.
#[tokio::test]
async fn a_late_first_try_that_a_store_has_repeated_takes_nothing() {
    for (alone, side) in [(true, 1), (false, 0), (false, 1)] {
        for busy in [false, true] {
            let two = Two::new().await;
            let other = match busy {
                true => Some(granted(&two.stores[1].memory, 9).await),
                false => None,
            };
            let store: Arc<dyn Backend> =
                if alone { two.stores[side].clone() } else { two.both.clone() };
            let client = LockClient::new(store);
            two.stores[side].next("acquire", Fault::Repeated);
            match (client.lock("job").lease(LEASE).try_acquire().await, busy) {
                (Ok(TryAcquire::Acquired(guard)), false) => guard.release().await.unwrap(),
                (Ok(TryAcquire::Busy(_)), true) => {}
                // The first store's grant was doubtful, and is released because the second store is
                // held.
                (Err(error), true) if !alone && side == 0 => assert!(error.is_ambiguous()),
                (other, _) => panic!("{alone} {side} {busy}: {other:?}"),
            }
            client.close().await;
            if let Some(other) = other {
                two.stores[1].memory.release(&other, ReleaseOptions::default()).await.unwrap();
            }
            two.stores[side].deliver().await;
            two.all_free().await;
        }
    }
}

#[tokio::test]
async fn lost_answers_cost_only_time() {
    for operation in ["acquire", "raise", "release", "abandon"] {
        for side in 0..2 {
            if operation == "raise" && side == 1 {
                continue;
            }
            let two = Two::new().await;
            two.second_is_ahead().await;
            let client = LockClient::new(two.both.clone());
            if operation == "abandon" {
                two.stores[0].next("acquire", Fault::AnswerLost);
            }
            two.stores[side].next(operation, Fault::AnswerLost);
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
        for fault in [Fault::Refused(ErrorKind::Unavailable), Fault::AnswerLost] {
            let two = Two::new().await;
            let client = LockClient::new(two.both.clone());
            let guard = client.lock("job").lease(LEASE).acquire().await.unwrap();
            two.stores[side].next("release", fault);
            guard.release().await.unwrap();
            two.all_free().await;
            // Without the client: the first repeat releases what was left, the second nothing.
            let grant = granted(&*two.both, 1).await;
            two.stores[side].next("release", Fault::Refused(ErrorKind::Unavailable));
            two.both.release(&grant, ReleaseOptions::default()).await.unwrap_err();
            for expected in [ReleaseOutcome::Released, ReleaseOutcome::NotHeld] {
                let released = two.both.release(&grant, ReleaseOptions::default()).await.unwrap();
                assert_eq!(released.outcome, expected);
            }
        }
    }
}

/// Of two failures, the ambiguous one is reported.
#[tokio::test]
async fn a_release_that_fails_differently_in_both_stores_is_repeated_and_is_no_loss() {
    for lost in 0..2 {
        let two = Two::new().await;
        let client = LockClient::new(two.both.clone());
        let guard = client.lock("job").lease(LEASE).acquire().await.unwrap();
        two.stores[lost].next("release", Fault::AnswerLost);
        two.stores[1 - lost].next("release", Fault::Refused(ErrorKind::Unavailable));
        guard.release().await.unwrap();
        two.all_free().await;
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

/// The holder was promised this time, and may be in the middle of its work.
#[tokio::test]
async fn the_remaining_grant_of_a_lock_that_one_store_has_lost_keeps_others_out() {
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

/// A waiter that holds the first store renews it while the second is held by another for longer
/// than the lease, and releases it at its deadline.
#[tokio::test]
async fn the_first_store_is_renewed_while_the_second_is_waited_for_and_released_in_time() {
    let two = Two::new().await;
    let held = granted(&two.stores[1].memory, 9).await;
    let client = LockClient::new(two.both.clone());
    let (lease, wait) = (Duration::from_millis(2_400), Duration::from_millis(3_400));
    let lock = client.lock("job").lease(lease).wait(wait);
    let began = SystemEnv.now();
    let waiter = tokio::spawn(lock.acquire());
    while two.is_free(0).await {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let first_store = async || {
        let state = two.stores[0].memory.inspect(&name()).await.unwrap();
        state.filter(|state| state.holder.is_some()).map(|state| state.token)
    };
    let first = first_store().await;
    // Until the wait is over, which is after the end of the lease.
    loop {
        let now = first_store().await;
        if SystemEnv.now().since(began) >= wait {
            break;
        }
        assert!(first.is_some() && now == first, "the first store was not renewed");
        tokio::time::sleep(lease / 24).await;
    }
    waiter.await.unwrap().unwrap_err();
    two.all_but_the_second(&held).await;
}
