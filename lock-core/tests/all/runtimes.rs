//! Callers without a runtime, and runtimes that stall or end.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use futures_util::{FutureExt as _, future::join_all, poll};
use lock_core::{
    Backend as _, Error, ErrorKind, Event, EventKind, Guard, LockClient, LockName, LossReason,
    Memory,
};
use tokio::{runtime::Runtime, task::JoinHandle};

use crate::support::{Fault, Stub, one_entry_waits};

const LONG: Duration = Duration::from_secs(30);

#[test]
fn waiting_without_a_runtime_is_refused_and_does_not_affect_others() {
    let memory = Memory::new();
    let (ours, theirs) = (Memory::clone(&memory), memory);
    let (ours, theirs) = (LockClient::new(Arc::new(ours)), LockClient::new(Arc::new(theirs)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let held = runtime.block_on(theirs.lock("job").acquire()).unwrap();
    let error = ours.lock("job").acquire().now_or_never().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    // The next one of this process, in a runtime, is served.
    runtime.block_on(async {
        let mut waits = Box::pin(ours.lock("job").acquire());
        assert!(waits.as_mut().now_or_never().is_none());
        held.release().await.unwrap();
        let served = tokio::time::timeout(Duration::from_secs(30), waits).await.unwrap();
        assert!(served.is_ok());
    });
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Two tasks wait on their own runtime. The first gets the lock and drops its guard, while the
/// renewer's runtime is stalled. Returns the second task.
fn one_waits_behind_a_release(
    client: &LockClient,
    memory: &Memory,
    lease: Duration,
    [renewers, waiters]: [&Runtime; 2],
) -> JoinHandle<Result<Guard, Error>> {
    let lock = || client.lock("job").lease(lease);
    // The renewer runs in the runtime of the first acquire.
    let held = renewers.block_on(client.lock("job").lease(LONG).acquire()).unwrap();
    let (first, second) = (waiters.spawn(lock().acquire()), waiters.spawn(lock().acquire()));
    waiters.block_on(async {
        one_entry_waits(memory).await;
        held.release().await.unwrap();
        drop(tokio::time::timeout(LONG, first).await.unwrap().unwrap().unwrap());
    });
    second
}

#[test]
fn waiters_are_served_if_the_release_before_them_never_ran() {
    let memory = Memory::new();
    let client = LockClient::new(Arc::new(memory.clone()));
    let [renewers, waiters] = [runtime(), runtime()];
    // The entry is made long before the lease is over, after which the worker would check by
    // itself.
    let second = one_waits_behind_a_release(&client, &memory, LONG, [&renewers, &waiters]);
    drop(renewers);
    waiters.block_on(async {
        one_entry_waits(&memory).await;
        memory.force_release(&LockName::new("job").unwrap()).await.unwrap();
        let served = tokio::time::timeout(LONG, second).await.expect("it waits for ever");
        drop(served.unwrap().unwrap());
    });
}

#[test]
fn waiters_are_served_if_the_release_before_them_never_ends() {
    let memory = Memory::new();
    let client = LockClient::new(Arc::new(memory.clone()));
    let [renewers, waiters] = [runtime(), runtime()];
    let lease = Duration::from_millis(300);
    let second = one_waits_behind_a_release(&client, &memory, lease, [&renewers, &waiters]);
    let served = waiters.block_on(async { tokio::time::timeout(LONG, second).await });
    drop(served.expect("it waits for ever").unwrap().unwrap());
}

/// Waits for the next renewal.
async fn renewed(guard: &Guard) {
    let renewal = async {
        let mut left = guard.remaining();
        while guard.remaining() <= left {
            left = guard.remaining();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, renewal).await.expect("it is renewed");
    assert!(guard.is_valid());
}

#[test]
fn the_renewals_go_on_at_another_runtime_with_a_lock() {
    let client = LockClient::new(Arc::new(Memory::new()));
    let lock = |name| client.lock(name).lease(LONG / 3).acquire();
    let [renewers, ended, last] = [runtime(), runtime(), runtime()];
    let moved = renewers.block_on(lock("moved")).unwrap();
    let _of_ended = ended.block_on(lock("of a runtime that has ended, too")).unwrap();
    let held = last.block_on(lock("held")).unwrap();
    drop(ended);
    drop(renewers);
    last.block_on(async {
        renewed(&moved).await;
        renewed(&held).await;
        held.release().await.unwrap();
        moved.release().await.unwrap();
    });
}

/// The locks of a renewer are lost with the only runtime. A lock that is acquired meanwhile has a
/// new renewer, in the runtime of the task that acquired it, and is not lost.
#[test]
fn a_guard_that_is_acquired_while_the_renewer_ends_is_kept_by_the_next() {
    let (tell, told) = mpsc::channel();
    let (acquired, acquires) = mpsc::channel();
    let acquires = std::sync::Mutex::new(acquires);
    // The renewer reports the first loss while it ends, and here waits for the acquire.
    let observer = move |event: &Event<'_>| {
        if let EventKind::Lost { reason, .. } = event.kind {
            tell.send(reason).unwrap();
            acquires.lock().unwrap().recv_timeout(LONG).unwrap();
        }
    };
    let client = LockClient::new(Arc::new(Memory::new())).observed_by(Arc::new(observer)).unwrap();
    let renewers = runtime();
    let first = renewers.block_on(client.lock("first").lease(LONG / 3).acquire()).unwrap();
    let ends = thread::spawn(move || drop(renewers));
    assert_eq!(told.recv_timeout(LONG).unwrap(), LossReason::RuntimeEnded);
    runtime().block_on(async {
        let next = client.lock("next").lease(LONG / 3).acquire().await.unwrap();
        acquired.send(()).unwrap();
        ends.join().unwrap();
        assert!(!first.is_valid(), "nobody renews it");
        renewed(&next).await;
        next.release().await.unwrap();
    });
}

/// A timer panics after the end of its runtime.
#[test]
fn a_call_of_a_runtime_that_has_ended_harms_no_lock_of_another() {
    let stub = Stub::real();
    let client = stub.client();
    let [others, renewers] = [runtime(), runtime()];
    let lock = |name| client.lock(name).lease(LONG / 3).acquire();
    let held = renewers.block_on(lock("held")).unwrap();
    let released = others.block_on(lock("released")).unwrap();
    stub.fault("release", Fault::RequestLost);
    drop(others.spawn(released.release()));
    // From here on, the release waits for the time of its next try.
    others.block_on(stub.reached("release", 1));
    drop(others);
    renewers.block_on(renewed(&held));
}

#[test]
fn waiters_keep_their_order_when_the_runtime_of_their_worker_ends() {
    let memory = Memory::new();
    let client = LockClient::new(Arc::new(memory.clone()));
    let other = LockClient::new(Arc::new(memory.clone()));
    let [workers, waiters] = [runtime(), runtime()];
    let held = waiters.block_on(other.lock("job").acquire()).unwrap();
    let lock = client.lock("job").lease(Duration::from_millis(300));
    drop(workers.spawn(lock.clone().acquire()));
    workers.block_on(one_entry_waits(&memory));
    let mut waits = [(); 3].map(|()| Box::pin(lock.clone().acquire()));
    assert!(waits.iter_mut().all(|wait| waiters.block_on(async { poll!(wait) }).is_pending()));
    drop(workers);
    // The last one asks first for a new worker.
    waits.reverse();
    waiters.block_on(async {
        held.release().await.unwrap();
        let mut tokens = Vec::new();
        let served = join_all(waits.into_iter().map(async |wait| {
            let guard = wait.await.unwrap();
            let token = guard.token();
            // On a busy machine its lease may be over.
            let _ = guard.release().await;
            token
        }));
        tokens.extend(tokio::time::timeout(LONG, served).await.expect("they are served"));
        assert!(tokens.iter().rev().is_sorted(), "the first is served first: {tokens:?}");
    });
}
