//! Clients that are closed, first attempts, and waiters that come and go.

use std::{
    error::Error as _,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::FutureExt as _;
use lock_core::{
    Backend as _, Blocked, ClientOptions, ErrorKind, LockClient, LockName, LossReason, Memory,
};

use crate::support::{Fault, Stub, held, one_entry_waits};

const LONG: Duration = Duration::from_secs(30);

fn client(stub: &Arc<Stub>, call_timeout: Duration) -> LockClient {
    stub.client_with(ClientOptions::new().with_call_timeout(call_timeout))
}

#[tokio::test]
async fn close_ends_an_acquire_that_retries() {
    let stub = Stub::real();
    stub.down.store(true, Ordering::SeqCst);
    let client = client(&stub, Duration::from_secs(60));
    let acquire = tokio::spawn(client.lock("job").acquire());
    stub.next_attempt().await;
    // It waits for the acquire, as for every call in flight, but not for its whole limit.
    tokio::time::timeout(Duration::from_secs(30), client.close()).await.unwrap();
    let error = acquire.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[tokio::test]
async fn a_grant_that_comes_after_close_is_released() {
    let stub = Stub::real();
    stub.hold("acquire");
    // A store that is slower than the limit of `close`, and an attempt that began with another.
    let client = client(&stub, Duration::from_millis(50));
    let mut acquire = Box::pin(client.lock("job").acquire());
    assert!(acquire.as_mut().now_or_never().is_none());
    client.close().await;
    stub.let_go("acquire");
    let error = acquire.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let name = LockName::new("job").unwrap();
    let held = || async { stub.memory.inspect(&name).await.unwrap().and_then(|job| job.holder) };
    for _ in 0..1_000 {
        if held().await.is_none() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("left behind: {:?}", held().await);
}

/// A loss through a close says so: nothing is wrong with the store.
#[tokio::test]
async fn what_a_close_has_ended_says_so() {
    let client = LockClient::new(Arc::new(Memory::new()));
    let guard = client.lock("job").acquire().await.unwrap();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let work = client.lock("work").with(async |_| {
        begun.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    let work = tokio::spawn(work);
    begins.await.unwrap();
    client.close().await;
    assert_eq!(guard.lost().await, LossReason::Closed);
    let stopped = work.await.unwrap().unwrap_err();
    for (error, text) in [
        (guard.release().await.unwrap_err(), "the client was closed before the guard was released"),
        (stopped, "the client was closed, which stopped the work under the lock"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        let source = error.source().unwrap();
        assert_eq!(source.downcast_ref(), Some(&LossReason::Closed), "{source}");
        assert_eq!(source.to_string(), "the client was closed");
    }
}

/// The lock is no longer in the renewer, and the caller may drop the release.
#[tokio::test]
async fn close_waits_for_a_release_that_a_guard_has_begun() {
    for dropped in [false, true] {
        let stub = Stub::real();
        let client = client(&stub, LONG);
        let guard = client.lock("job").lease(LONG).acquire().await.unwrap();
        stub.stall("release");
        let mut release = Box::pin(guard.release());
        assert!(release.as_mut().now_or_never().is_none(), "it is slow");
        let mut close = Box::pin(client.close());
        assert!(close.as_mut().now_or_never().is_none(), "the store is closed under a release");
        stub.resume("release");
        if dropped {
            drop(release);
            close.await;
        } else {
            futures_util::future::join(release, close).await.0.unwrap();
        }
        let name = LockName::new("job").unwrap();
        assert_eq!(stub.memory.inspect(&name).await.unwrap(), None, "left behind");
    }
}

/// If a client is closed twice at once, the second call does not close the store before the
/// releases of the first have ended.
#[tokio::test]
async fn each_close_waits_for_the_releases_of_the_other() {
    let stub = Stub::real();
    let client = client(&stub, LONG);
    let guard = client.lock("job").lease(LONG).acquire().await.unwrap();
    stub.stall("release");
    let mut first = Box::pin(client.close());
    assert!(first.as_mut().now_or_never().is_none(), "it is slow");
    let mut second = Box::pin(client.close());
    assert!(second.as_mut().now_or_never().is_none(), "the store is closed under a release");
    stub.resume("release");
    futures_util::future::join(first, second).await;
    assert_eq!(stub.memory.inspect(guard.name()).await.unwrap(), None, "left behind");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_before_there_is_an_entry_names_the_holder() {
    let stub = Stub::new();
    let held = held(&stub, "job").await;
    stub.stall("enqueue");
    let client = client(&stub, Duration::from_secs(60));
    let error = client.lock("job").wait(Duration::from_millis(50)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let Some(Blocked::Busy(busy)) = error.blocked() else { panic!("{error}") };
    assert_eq!(busy.holder.as_ref().unwrap().owner, held.owner());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_poll_hangs_makes_another_entry() {
    let stub = Stub::new();
    let held = held(&stub, "job").await;
    let client = client(&stub, Duration::from_millis(50));
    stub.deaf.store(true, Ordering::SeqCst);
    let lock = client.lock("job").lease(Duration::from_secs(1)).wait(Duration::from_secs(30));
    let waiter = tokio::spawn(lock.acquire());
    // The first attempt is answered. The entry, which gets no pushes, then polls, and the poll
    // hangs.
    stub.next_attempt().await;
    stub.stall("acquire");
    stub.next_attempt().await;
    stub.deaf.store(false, Ordering::SeqCst);
    held.release().await.unwrap();
    let served = tokio::time::timeout(Duration::from_secs(20), waiter).await.unwrap().unwrap();
    served.expect("another entry was made").release().await.unwrap();
}

/// The error of a release is about the lock. The carried request may still have an entry.
#[tokio::test]
async fn the_entry_of_a_request_that_a_failed_release_carried_is_given_up() {
    let stub = Stub::real();
    let held = held(&stub, "job").await;
    let client = client(&stub, LONG);
    let wait = || tokio::spawn(client.lock("job").lease(LONG).wait(LONG * 2).acquire());
    let first = wait();
    one_entry_waits(&stub.memory).await;
    let second = wait();
    held.release().await.unwrap();
    let first = tokio::time::timeout(LONG, first).await.unwrap().unwrap().unwrap();
    stub.halves.store(true, Ordering::SeqCst);
    first.release().await.unwrap();
    assert!(!stub.halves.load(Ordering::SeqCst), "nothing was carried");
    let served = tokio::time::timeout(LONG, second).await.expect("it stands behind itself");
    served.unwrap().unwrap().release().await.unwrap();
    assert_eq!(stub.calls("abandon"), 1);
}

/// Lets all tasks of this thread run until they wait.
async fn all_wait() {
    for _ in 0..3_000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn tasks_that_acquire_at_once_make_one_attempt_and_are_served_in_order() {
    const TASKS: usize = 1_000;
    let stub = Stub::real();
    stub.hold("acquire");
    let client = client(&stub, LONG);
    let (tell, mut served) = tokio::sync::mpsc::unbounded_channel();
    for at in 0..TASKS {
        let (lock, tell) = (client.lock("job").wait(2 * LONG), tell.clone());
        // Those behind the first have options of their own.
        let lock = lock.lease(LONG - Duration::from_millis(at as u64));
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            tell.send((at, guard.grant().lease)).unwrap();
            tokio::task::yield_now().await;
            guard.release().await.unwrap();
        });
    }
    all_wait().await;
    let name = LockName::new("job").unwrap();
    let waiting = stub.memory.inspect(&name).await.unwrap().unwrap().waiting;
    assert_eq!((stub.calls("acquire"), waiting), (1, Some(0)), "others have asked");
    stub.let_go("acquire");
    for at in 0..TASKS {
        let next = tokio::time::timeout(LONG, served.recv()).await.expect("nobody is served");
        assert_eq!(next, Some((at, LONG - Duration::from_millis(at as u64))));
    }
    let attempts = stub.calls("acquire");
    assert!(attempts <= 2, "{attempts} attempts: one, and at most one poll of the entry");
}

/// The caller drops the first attempt, its wait is over, or the store refuses it.
#[tokio::test(start_paused = true)]
async fn the_next_task_goes_on_at_once_if_the_first_attempt_ends_without_the_lock() {
    for ending in ["dropped", "over", "refused"] {
        let stub = Stub::new();
        let client = client(&stub, LONG);
        stub.hold("acquire");
        if ending == "refused" {
            stub.fault("acquire", Fault::Refused);
        }
        let wait = if ending == "over" { Duration::from_millis(50) } else { 2 * LONG };
        let first = tokio::spawn(client.lock("job").lease(LONG).wait(wait).acquire());
        stub.next_attempt().await;
        let second = tokio::spawn(client.lock("job").lease(LONG).wait(2 * LONG).acquire());
        let third = tokio::spawn(client.lock("job").lease(LONG).acquire());
        all_wait().await;
        third.abort();
        match ending {
            "dropped" => first.abort(),
            "over" => assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout),
            _ => {
                stub.let_go("acquire");
                assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::Auth);
            }
        }
        if ending != "refused" {
            // The store has granted the attempt without an answer. The next task has a queue entry.
            one_entry_waits(&stub.memory).await;
            stub.let_go("acquire");
        }
        let served = tokio::time::timeout(LONG, second).await.expect(ending).unwrap();
        served.unwrap().release().await.unwrap();
        assert_eq!(stub.calls("acquire"), 1, "{ending}");
    }
}

/// The worker ends with the last task that waits behind a first attempt. The next task gets a new
/// worker.
#[tokio::test]
async fn waiters_may_come_and_go_behind_a_first_attempt() {
    let stub = Stub::real();
    let client = client(&stub, LONG);
    stub.hold("acquire");
    let lock = || client.lock("job").lease(LONG).wait(2 * LONG);
    let first = tokio::spawn(lock().acquire());
    stub.next_attempt().await;
    for _ in 0..3 {
        let waiter = tokio::spawn(lock().acquire());
        all_wait().await;
        waiter.abort();
        all_wait().await;
    }
    let last = tokio::spawn(lock().acquire());
    all_wait().await;
    assert_eq!(stub.calls("acquire"), 1);
    stub.let_go("acquire");
    first.await.unwrap().unwrap().release().await.unwrap();
    let served = tokio::time::timeout(LONG, last).await.expect("nobody asks").unwrap();
    served.unwrap().release().await.unwrap();
}
