//! Clients that are closed, and waiters that come and go.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::FutureExt as _;
use lock_core::{Backend as _, Blocked, ClientOptions, ErrorKind, LockClient, LockName};

use crate::support::{Stub, a_place_is_taken};

const LONG: Duration = Duration::from_secs(30);

fn client(stub: &Arc<Stub>, call_timeout: Duration) -> LockClient {
    stub.client_with(ClientOptions::new().with_call_timeout(call_timeout))
}

#[tokio::test]
async fn an_acquire_that_tries_again_and_again_ends_when_the_client_is_closed() {
    let stub = Stub::real();
    stub.down.store(true, Ordering::SeqCst);
    let client = client(&stub, Duration::from_secs(60));
    let acquire = tokio::spawn(client.lock("job").acquire());
    stub.next_attempt().await;
    // Waits for the acquire as for every call in flight, but not for its whole limit.
    tokio::time::timeout(Duration::from_secs(30), client.close()).await.unwrap();
    let error = acquire.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[tokio::test]
async fn a_grant_that_comes_after_close_is_given_back() {
    let stub = Stub::real();
    stub.shut.store(true, Ordering::SeqCst);
    // A store that is slower than the limit of `close`, and an attempt that began with another.
    let client = client(&stub, Duration::from_millis(50));
    let mut acquire = Box::pin(client.lock("job").acquire());
    assert!(acquire.as_mut().now_or_never().is_none());
    client.close().await;
    stub.shut.store(false, Ordering::SeqCst);
    stub.open.notify_one();
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

/// The renewer has it no more, and its caller may be about to drop it.
#[tokio::test]
async fn close_waits_for_a_release_that_a_guard_has_begun() {
    for dropped in [false, true] {
        let stub = Stub::real();
        let client = client(&stub, LONG);
        let guard = client.lock("job").lease(LONG).acquire().await.unwrap();
        stub.slow.store(true, Ordering::SeqCst);
        let mut release = Box::pin(guard.release());
        assert!(release.as_mut().now_or_never().is_none(), "it is slow");
        let mut close = Box::pin(client.close());
        assert!(close.as_mut().now_or_never().is_none(), "the store is closed under a release");
        stub.open.notify_one();
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

/// Two that close a client at once: the second does not close the store under the first's releases.
#[tokio::test]
async fn each_close_waits_for_the_releases_of_the_other() {
    let stub = Stub::real();
    let client = client(&stub, LONG);
    let guard = client.lock("job").lease(LONG).acquire().await.unwrap();
    stub.slow.store(true, Ordering::SeqCst);
    let mut first = Box::pin(client.close());
    assert!(first.as_mut().now_or_never().is_none(), "it is slow");
    let mut second = Box::pin(client.close());
    assert!(second.as_mut().now_or_never().is_none(), "the store is closed under a release");
    stub.open.notify_one();
    futures_util::future::join(first, second).await;
    assert_eq!(stub.memory.inspect(guard.name()).await.unwrap(), None, "left behind");
}

#[tokio::test]
async fn a_wait_that_ends_before_the_store_has_a_place_names_the_holder() {
    let stub = Stub::real();
    let holder = LockClient::new(Arc::new(stub.memory.clone()));
    let held = holder.lock("job").acquire().await.unwrap();
    stub.mute.store(true, Ordering::SeqCst);
    let client = client(&stub, Duration::from_secs(60));
    let error = client.lock("job").wait(Duration::from_millis(50)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let Some(Blocked::Busy(busy)) = error.blocked() else { panic!("{error}") };
    assert_eq!(busy.holder.as_ref().unwrap().owner, held.owner());
}

#[tokio::test]
async fn a_waiter_whose_question_hangs_takes_another_place() {
    let stub = Stub::real();
    let holder = LockClient::new(Arc::new(stub.memory.clone()));
    let held = holder.lock("job").acquire().await.unwrap();
    let client = client(&stub, Duration::from_millis(50));
    stub.deaf.store(true, Ordering::SeqCst);
    let lock = client.lock("job").lease(Duration::from_secs(1)).wait(Duration::from_secs(30));
    let waiter = tokio::spawn(lock.acquire());
    // The first attempt is answered; the place, which hears nothing, then asks, and that hangs.
    stub.next_attempt().await;
    stub.shut.store(true, Ordering::SeqCst);
    stub.next_attempt().await;
    stub.deaf.store(false, Ordering::SeqCst);
    stub.shut.store(false, Ordering::SeqCst);
    held.release().await.unwrap();
    let served = tokio::time::timeout(Duration::from_secs(20), waiter).await.unwrap().unwrap();
    served.expect("another place was taken").release().await.unwrap();
}

/// What a failed release says of the lock says nothing of the place of the request that it carried.
#[tokio::test]
async fn a_place_is_given_up_that_was_carried_by_a_release_which_was_refused() {
    let stub = Stub::real();
    let holder = LockClient::new(Arc::new(stub.memory.clone()));
    let held = holder.lock("job").acquire().await.unwrap();
    let client = client(&stub, LONG);
    let wait = || tokio::spawn(client.lock("job").lease(LONG).wait(LONG * 2).acquire());
    let first = wait();
    a_place_is_taken(&stub.memory).await;
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
async fn tasks_that_call_at_once_make_one_attempt_and_are_served_in_their_order() {
    const TASKS: usize = 1_000;
    let stub = Stub::real();
    stub.shut.store(true, Ordering::SeqCst);
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
    stub.shut.store(false, Ordering::SeqCst);
    stub.open.notify_one();
    for at in 0..TASKS {
        let next = tokio::time::timeout(LONG, served.recv()).await.expect("nobody is served");
        assert_eq!(next, Some((at, LONG - Duration::from_millis(at as u64))));
    }
    let attempts = stub.calls("acquire");
    assert!(attempts <= 2, "{attempts} attempts: one, and a poll of the place at most");
}

/// Its caller drops it, its time is over, or the store refuses it.
#[tokio::test]
async fn a_first_attempt_that_is_given_up_is_followed_by_the_next_at_once() {
    for ending in ["dropped", "over", "refused"] {
        let stub = Stub::real();
        let client = client(&stub, LONG);
        stub.shut.store(true, Ordering::SeqCst);
        stub.broken.store(ending == "refused", Ordering::SeqCst);
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
                stub.open.notify_one();
                assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::Auth);
            }
        }
        if ending != "refused" {
            // The store has granted the attempt and not answered; behind it the next has a place.
            a_place_is_taken(&stub.memory).await;
            stub.open.notify_one();
        }
        let served = tokio::time::timeout(LONG, second).await.expect(ending).unwrap();
        served.unwrap().release().await.unwrap();
        assert_eq!(stub.calls("acquire"), 1, "{ending}");
    }
}

/// The driver goes with the last that waits behind a first attempt; the next that comes has one all the same.
#[tokio::test]
async fn waiters_may_come_and_go_behind_a_first_attempt() {
    let stub = Stub::real();
    let client = client(&stub, LONG);
    stub.shut.store(true, Ordering::SeqCst);
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
    stub.open.notify_one();
    first.await.unwrap().unwrap().release().await.unwrap();
    let served = tokio::time::timeout(LONG, last).await.expect("nobody asks").unwrap();
    served.unwrap().release().await.unwrap();
}
