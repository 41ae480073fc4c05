//! Semaphores, and guards that share one hold.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{FutureExt as _, future::join_all};
use lock_core::{Blocked, ErrorKind, LockClient, LossReason, TryAcquire, any};

use super::{SECOND, is_untouched};
use crate::support::{Fault, Stub};

#[tokio::test(start_paused = true)]
async fn every_slot_is_found_for_every_number_of_permits() {
    for permits in [1, 2, 3, 6, 7, 128] {
        let stub = Stub::new();
        let client = stub.other();
        let pool = || client.semaphore("pool", permits).lease(10 * SECOND);
        let mut held = Vec::new();
        for _ in 0..permits {
            held.extend(pool().try_acquire().await.unwrap().guard());
        }
        let mut names: Vec<_> = held.iter().map(|permit| permit.name().to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), permits as usize);
        assert!(matches!(pool().try_acquire().await.unwrap(), TryAcquire::Busy(_)));
        for wait in [Duration::ZERO, SECOND] {
            let error = pool().wait(wait).acquire().await.unwrap_err();
            assert!(matches!(error.blocked(), Some(Blocked::Busy(_))), "{error:?}");
        }
        let freed = held.pop().unwrap();
        let name = freed.name().clone();
        freed.release().await.unwrap();
        assert_eq!(*pool().acquire().await.unwrap().name(), name);
    }
}

#[tokio::test(start_paused = true)]
async fn permits_and_names_of_a_semaphore_are_checked_before_the_store_is_touched() {
    let stub = Stub::new();
    let client = stub.client();
    for (semaphore, part) in [
        (client.semaphore("pool", 0), "permits 0 must be between 1 and 128"),
        (client.semaphore("pool", 129), "permits 129 must be between 1 and 128"),
        (client.semaphore("x".repeat(254), 100), "between 1 and 255"),
        (client.semaphore("pool", 3).lease(Duration::ZERO), "lease 0s must be between"),
    ] {
        for error in
            [semaphore.clone().try_acquire().await.err(), semaphore.clone().acquire().await.err()]
        {
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
    assert_eq!(stub.calls("acquire"), 0);
}

/// The one who waits for the slots is cancelled: the next enters.
#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_for_a_permit_leaves_nothing() {
    let stub = Stub::new();
    let permit = stub.other().semaphore("pool", 1).acquire().await.unwrap();
    let client = stub.client();
    let first = tokio::spawn(client.semaphore("pool", 1).acquire());
    stub.reached("enqueue", 1).await;
    assert!(stub.holder("pool").await.is_some(), "it holds the door");
    let second = tokio::spawn(stub.other().semaphore("pool", 1).acquire());
    tokio::time::sleep(SECOND).await;
    first.abort();
    drop(permit);
    let permit = second.await.unwrap().unwrap();
    assert_eq!(permit.name().as_str(), "pool/0");
    permit.release().await.unwrap();
    assert!(is_untouched(&stub, "pool").await && is_untouched(&stub, "pool/0").await);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_permit_ends_in_time_though_the_store_hangs() {
    let stub = Stub::new();
    stub.hold("acquire");
    let asked = tokio::time::Instant::now();
    let error = stub.client().semaphore("pool", 3).wait(2 * SECOND).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(asked.elapsed(), 2 * SECOND);
}

/// A client that dies at the door: nothing that it sends arrives any more.
#[tokio::test(start_paused = true)]
async fn a_dead_client_at_the_door_delays_the_others_by_less_than_its_lease() {
    let stub = Stub::new();
    let pool = |client: &LockClient| client.semaphore("pool", 1).lease(30 * SECOND);
    let permit = pool(&stub.other()).acquire().await.unwrap();
    let client = stub.client();
    let waiting = tokio::spawn(pool(&client).acquire());
    stub.reached("enqueue", 1).await;
    tokio::time::sleep(20 * SECOND).await;
    assert!(stub.holder("pool").await.is_some(), "a live client keeps the door");
    for operation in ["acquire", "enqueue", "renew", "release"] {
        stub.stall(operation);
    }
    permit.release().await.unwrap();
    let newcomer = pool(&stub.other()).wait(10 * SECOND).acquire().await;
    assert_eq!(newcomer.unwrap().name().as_str(), "pool/0");
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_permit_that_ends_between_two_answers_says_busy() {
    let stub = Stub::new();
    let other = stub.other();
    let _held = join_all((0..2).map(|_| other.semaphore("pool", 2).acquire())).await;
    stub.fault("acquire", Fault::None);
    stub.fault("acquire", Fault::Hangs);
    let error = stub.client().semaphore("pool", 2).wait(SECOND).acquire().await.unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    assert_eq!(stub.calls("acquire"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_began_while_the_store_was_away_says_what_it_found_then() {
    let stub = Stub::new();
    let other = stub.other();
    let _held = other.semaphore("pool", 1).acquire().await.unwrap();
    let client = stub.client();
    let one = any([client.lock("pool/0")]).wait(10 * SECOND);
    let permit = client.semaphore("pool", 1).wait(10 * SECOND);
    stub.down.store(true, Ordering::SeqCst);
    let waiting = (tokio::spawn(one.acquire()), tokio::spawn(permit.acquire()));
    tokio::time::sleep(2 * SECOND).await;
    stub.down.store(false, Ordering::SeqCst);
    for waiting in [waiting.0, waiting.1] {
        let error = waiting.await.unwrap().unwrap_err();
        assert!(error.is_busy(), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_fails_does_not_hide_one_that_is_free() {
    let stub = Stub::new();
    let client = stub.client();
    let pool = || client.semaphore("pool", 3);
    stub.fault("acquire", Fault::RequestLost);
    stub.fault("acquire", Fault::RequestLost);
    let permit = pool().try_acquire().await.unwrap().guard().expect("one is free");
    assert_eq!(stub.calls("acquire"), 3);
    // Not every slot is known to be busy.
    let other = stub.other();
    let _rest = join_all((0..2).map(|_| other.semaphore("pool", 3).acquire())).await;
    stub.fault("acquire", Fault::RequestLost);
    let error = pool().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(matches!(pool().try_acquire().await.unwrap(), TryAcquire::Busy(_)));
    drop(permit);
    // A store that hangs is not asked for every slot.
    stub.hold("acquire");
    let asked = tokio::time::Instant::now();
    client.semaphore("other", 128).try_acquire().await.unwrap_err();
    assert!(asked.elapsed() <= 10 * SECOND, "only after {:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn every_guard_of_a_hold_learns_of_its_loss() {
    let stub = Stub::new();
    let first = stub.client().lock("job").hold_at_most(SECOND).acquire().await.unwrap();
    let second = first.reenter().unwrap();
    let cancelled = second.cancellation_token();
    assert_eq!(first.lost().await, LossReason::HoldLimit);
    assert_eq!(second.lost().await, LossReason::HoldLimit);
    assert!(cancelled.is_cancelled());
    assert_eq!(second.reenter().unwrap_err().kind(), ErrorKind::Lost);
    // Not only the last one says so.
    for guard in [first, second] {
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    }
}

/// A guard that is released while another one ends the hold reports no loss.
#[tokio::test]
async fn guards_of_one_hold_that_are_released_at_once_report_no_loss() {
    let client = LockClient::new(Arc::new(lock_core::Memory::new()));
    let (start, runtime) = (std::sync::Barrier::new(2), tokio::runtime::Handle::current());
    for _ in 0..5_000 {
        let first = client.lock("job").acquire().await.unwrap();
        let second = first.reenter().unwrap();
        let release = |guard: lock_core::Guard| {
            let _context = runtime.enter();
            start.wait();
            guard.release().now_or_never().expect("the store answers at once").unwrap();
        };
        std::thread::scope(|threads| {
            threads.spawn(|| release(first));
            release(second);
        });
    }
}
