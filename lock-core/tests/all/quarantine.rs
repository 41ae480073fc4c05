//! How a client waits for the end of a quarantine, in simulated time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lock_core::{Blocked, Env, Lock, LockClient, Semaphore, TryAcquire, all};

use crate::support::Stub;

const SECOND: Duration = Duration::from_secs(1);

/// A store that grants nothing for five seconds and a third, and a client of it.
fn quarantined() -> (Arc<dyn Env>, Arc<Stub>, LockClient) {
    let stub = Stub::new();
    let end = tokio::time::Instant::now() + SECOND * 16 / 3;
    stub.quarantine.set(end).unwrap();
    let (env, client) = (Arc::clone(&stub.env), stub.client());
    (env, stub, client)
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_quarantine_ends_with_it_and_before_the_wait_for_the_lock() {
    let (env, stub, client) = quarantined();
    let started = env.now();
    let told = Arc::new(AtomicU64::new(0));
    let whole = |lock: Lock| {
        let told = Arc::clone(&told);
        lock.wait_for_quarantine(move |quarantine| {
            told.fetch_add(1, Ordering::SeqCst);
            quarantine.remaining
        })
    };
    // One gets the lock in the moment in which the quarantine ends, whatever the wait for the lock.
    let locks = [Duration::ZERO, Duration::ZERO, 2 * SECOND].map(|wait| {
        let lock = whole(client.lock("job")).at_least(8 * SECOND).wait(wait);
        async {
            let result = lock.acquire().await;
            (result, env.now().since(started))
        }
    });
    let answers = futures_util::future::join_all(locks).await;
    let end = SECOND * 16 / 3;
    for (at, (result, when)) in answers.iter().enumerate() {
        let wait = if at == 2 { 2 * SECOND } else { Duration::ZERO };
        let late = when.saturating_sub(end + if result.is_ok() { Duration::ZERO } else { wait });
        assert!(*when >= end && late <= Duration::from_millis(5), "{at}: {when:?}");
        if let Err(error) = result {
            assert!(matches!(error.blocked(), Some(Blocked::Busy(_))), "{error}");
        }
    }
    assert_eq!(answers.iter().filter(|(result, _)| result.is_ok()).count(), 1);
    assert_eq!(told.load(Ordering::SeqCst), 3, "once for each");
    // Once a second, since an operator may end it.
    assert!(stub.calls("acquire") <= 3 * 9, "{stub:?}");
}

#[tokio::test(start_paused = true)]
async fn a_quarantine_counts_towards_the_wait_after_its_limit_or_without_one() {
    type Told = fn(Lock) -> Lock;
    let cases: [(Told, u32); 5] = [
        (|lock| lock.wait(Duration::ZERO), 0),
        (|lock| lock.wait(SECOND), 1),
        (|lock| lock.wait(Duration::ZERO).wait_for_quarantine(|_| Duration::ZERO), 0),
        (|lock| lock.wait(Duration::ZERO).wait_for_quarantine(|_| 2 * SECOND), 2),
        (|lock| lock.wait(SECOND).wait_for_quarantine(|_| 2 * SECOND), 3),
    ];
    for (told, seconds) in cases {
        let (env, _stub, client) = quarantined();
        let started = env.now();
        let error = told(client.lock("job")).acquire().await.unwrap_err();
        assert!(matches!(error.blocked(), Some(Blocked::Quarantined(_))), "{error}");
        let late = env.now().since(started).checked_sub(seconds * SECOND).unwrap();
        assert!(late <= Duration::from_millis(5), "{seconds}: {late:?}");
        let lock = told(client.lock("job")).try_acquire().await.unwrap();
        assert!(matches!(lock, TryAcquire::Quarantined(_)), "{lock:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_client_retries_a_store_that_is_unreachable_during_its_quarantine() {
    let (_env, stub, client) = quarantined();
    let lock = client.lock("job").wait(Duration::ZERO);
    let acquire = tokio::spawn(lock.wait_for_quarantine(|told| told.remaining).acquire());
    stub.next_attempt().await;
    stub.down.store(true, Ordering::SeqCst);
    stub.next_attempt().await;
    stub.down.store(false, Ordering::SeqCst);
    let _held = acquire.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_waits_for_a_quarantine_as_a_lock_does() {
    type Told = fn(Semaphore) -> Semaphore;
    let cases: [(Told, u32); 5] = [
        (|pool| pool.wait(Duration::ZERO), 0),
        (|pool| pool.wait(SECOND), 1),
        (|pool| pool.wait(Duration::ZERO).wait_for_quarantine(|_| Duration::ZERO), 0),
        (|pool| pool.wait(Duration::ZERO).wait_for_quarantine(|_| 2 * SECOND), 2),
        (|pool| pool.wait(SECOND).wait_for_quarantine(|_| 2 * SECOND), 3),
    ];
    for (told, seconds) in cases {
        let (env, _stub, client) = quarantined();
        let started = env.now();
        let error = told(client.semaphore("pool", 2)).acquire().await.unwrap_err();
        assert!(matches!(error.blocked(), Some(Blocked::Quarantined(_))), "{error}");
        let late = env.now().since(started).checked_sub(seconds * SECOND).unwrap();
        assert!(late <= Duration::from_millis(5), "{seconds}: {late:?}");
    }
    for wait in [Duration::ZERO, 2 * SECOND] {
        let (env, stub, client) = quarantined();
        let started = env.now();
        let pool = client.semaphore("pool", 2).wait(wait);
        let _permit = pool.wait_for_quarantine(|told| told.remaining).acquire().await.unwrap();
        let late = env.now().since(started).checked_sub(SECOND * 16 / 3).unwrap();
        assert!(late <= Duration::from_millis(5), "{late:?}");
        assert!(stub.holder("pool").await.is_none(), "it is not at the door");
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_all_counts_from_the_end_of_a_quarantine() {
    let stub = Stub::new();
    let other = stub.other().lock("b").acquire().await.unwrap();
    stub.quarantine.set(tokio::time::Instant::now() + 5 * SECOND).unwrap();
    let client = stub.client();
    let lock = |name| client.lock(name).wait_for_quarantine(|told| told.remaining);
    let acquire = tokio::spawn(all([lock("a"), lock("b")]).wait(2 * SECOND).acquire());
    tokio::time::sleep(6 * SECOND).await;
    other.release().await.unwrap();
    assert_eq!(acquire.await.unwrap().unwrap().len(), 2);
}
