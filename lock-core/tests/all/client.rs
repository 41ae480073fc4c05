//! The client on the reference backend, mostly in simulated time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lock_core::{Backend as _, ErrorKind, LockClient, Memory, Monitor, WithError};

use crate::support::{Stub, SuspendableEnv};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_minimum_hold_outlives_the_release() {
    let stub = Stub::new();
    let client = stub.other();
    let guard = client.lock("job").at_least(8 * SECOND).acquire().await.unwrap();
    let started = stub.env.now();
    guard.release().await.unwrap();
    assert!(client.lock("job").try_acquire().await.unwrap().guard().is_none());
    let _next = client.lock("job").acquire().await.unwrap();
    let passed = stub.env.now().since(started);
    assert!(passed >= 8 * SECOND && passed < 10 * SECOND, "{passed:?}");
}

#[tokio::test(start_paused = true)]
async fn work_under_a_lost_lock_is_stopped() {
    let stub = Stub::new();
    let client = stub.other();
    let lock = client.lock("job").hold_at_most(SECOND);
    let error = lock.with(|_| std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    let done = client.lock("job").with(async |lock| lock.token()).await.unwrap();
    assert!(done.output.get() > 0);
    done.release.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_output_of_the_work_is_returned_even_if_the_release_fails() {
    let stub = Stub::new();
    let client = stub.other();
    let robbed = async |_| {
        stub.memory.force_release(&"job".try_into().unwrap()).await.unwrap();
        "done"
    };
    let done = client.lock("job").with(robbed).await.unwrap();
    assert_eq!(done.output, "done");
    assert_eq!(done.release.unwrap_err().kind(), ErrorKind::NotHeld);
    // The lock is lost during the last step of the work.
    let machine = SuspendableEnv::new();
    let client = Stub::over(machine.clone()).client();
    let late = async |_| {
        machine.suspend(60 * SECOND);
        "late"
    };
    let done = client.lock("job").with(late).await.unwrap();
    assert_eq!(done.output, "late");
    assert_eq!(done.release.unwrap_err().kind(), ErrorKind::Lost);
}

/// The process is paused past the end of its lease. When it continues, both the timer of the work
/// and the loss are due.
#[tokio::test(start_paused = true)]
async fn work_takes_no_step_after_a_pause_past_the_validity() {
    let machine = SuspendableEnv::new();
    let stub = Stub::over(machine.clone());
    let client = stub.client();
    let steps = AtomicUsize::new(0);
    let work = async |lock: Monitor| loop {
        assert!(lock.is_valid(), "a step without the lock");
        steps.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(SECOND / 2).await;
    };
    let stopped = async {
        tokio::time::sleep(2 * SECOND - SECOND / 100).await;
        machine.suspend(60 * SECOND);
        std::future::pending::<()>().await;
    };
    let error = tokio::select! {
        // What was polled last before the pause is polled first after it.
        biased;
        () = stopped => unreachable!(),
        ended = client.lock("job").with(work) => ended.unwrap_err(),
    };
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(steps.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_work_differs_from_an_error_of_the_lock() {
    let stub = Stub::new();
    let client = stub.other();
    let done = client.lock("job").try_with(async |_| "7".parse::<u8>()).await.unwrap();
    assert_eq!((done.output, done.release.is_ok()), (7, true));
    let robbed = async |_| {
        stub.memory.force_release(&"job".try_into().unwrap()).await.unwrap();
        "seven".parse::<u8>()
    };
    let error = client.lock("job").try_with(robbed).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid digit found in string");
    let WithError::Work(failed) = error else { panic!("{error:?}") };
    assert_eq!(failed.release.unwrap_err().kind(), ErrorKind::NotHeld);
    let endless = async |_| std::future::pending::<Result<u8, std::num::ParseIntError>>().await;
    let error = client.lock("job").hold_at_most(SECOND).try_with(endless).await.unwrap_err();
    let WithError::Lock(error) = error else { panic!("{error:?}") };
    assert_eq!(error.kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn invalid_input_is_refused_before_anything_is_sent() {
    let client = LockClient::new(Arc::new(Memory::new()));
    for lock in [
        client.lock(""),
        client.lock("a\nb"),
        client.lock("job").lease(Duration::ZERO),
        client.lock("job").lease(31 * SECOND),
        client.lock("job").at_least(31 * SECOND),
    ] {
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert!(client.backend().list(None).await.unwrap().locks.is_empty());
}

#[test]
fn a_guard_can_be_dropped_with_no_runtime_left() {
    let memory = Memory::new();
    let client = LockClient::new(Arc::new(memory.clone()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let guard = runtime.block_on(client.lock("job").acquire()).unwrap();
    drop(runtime);
    assert!(!guard.is_valid(), "nobody renews it any more");
    drop(guard);
    drop(client);
}
