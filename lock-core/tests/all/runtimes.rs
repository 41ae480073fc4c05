//! Callers without a runtime, and runtimes that stall or end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use futures_util::FutureExt as _;
use lock_core::{
    Backend as _, BoxFuture, ClientOptions, Env, Error, ErrorKind, Guard, Instant, LockClient,
    LockName, Memory, NoRuntime, SystemEnv,
};
use tokio::{runtime::Runtime, task::JoinHandle};

use crate::support::one_entry_waits;

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

/// Two tasks wait on their own runtime. The first gets the lock and drops its guard, while the renewer's runtime is stalled.
/// Returns the second task.
fn one_waits_behind_a_release(
    client: &LockClient,
    memory: &Memory,
    lease: Duration,
    [renewers, waiters]: [&Runtime; 2],
) -> JoinHandle<Result<Guard, Error>> {
    let lock = || client.lock("job").lease(lease);
    // The renewer runs in the runtime of the first acquire.
    let held = renewers.block_on(lock().acquire()).unwrap();
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
    // The entry is made long before the lease is over, after which the worker would check by itself.
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

/// The real environment, which counts spawned tasks.
#[derive(Debug, Default)]
struct Counted(AtomicUsize);

impl Counted {
    fn begun(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Env for Counted {
    fn now(&self) -> Instant {
        SystemEnv.now()
    }

    fn wall_micros(&self) -> u64 {
        SystemEnv.wall_micros()
    }

    fn random(&self) -> u128 {
        SystemEnv.random()
    }

    fn spawn(&self, task: BoxFuture) -> Result<(), NoRuntime> {
        self.0.fetch_add(1, Ordering::SeqCst);
        SystemEnv.spawn(task)
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture {
        SystemEnv.sleep_until(at)
    }
}

/// The locks of a renewer are lost when it ends. A lock that is acquired later has a new renewer, in the runtime of the task that
/// acquired it, and is not lost.
#[test]
fn a_guard_that_is_acquired_while_the_renewer_ends_is_kept_by_the_next() {
    let env = Arc::new(Counted::default());
    let memory = Arc::new(Memory::new());
    let client = LockClient::with_env(memory, env.clone(), ClientOptions::default()).unwrap();
    let lease = LONG / 3;
    let renewers = runtime();
    let first = renewers.block_on(client.lock("first").lease(lease).acquire()).unwrap();
    assert_eq!(env.begun(), 1);
    let (begun, begins) = mpsc::channel();
    let ends = thread::spawn(move || {
        begins.recv().unwrap();
        drop(renewers);
    });
    runtime().block_on(async {
        let mut before = vec![first];
        // Again and again, so that some locks are registered while the renewer ends.
        let next = loop {
            let name = format!("job {}", before.len());
            let guard = client.lock(name.as_str()).lease(lease).acquire().await.unwrap();
            if env.begun() == 2 {
                break guard;
            }
            before.push(guard);
            let _ = begun.send(());
        };
        ends.join().unwrap();
        assert!(before.iter().all(|guard| !guard.is_valid()), "nobody renews them");
        assert!(next.is_valid(), "it has a renewer");
        let renewed = async {
            let mut left = next.remaining();
            while next.remaining() <= left {
                left = next.remaining();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LONG, renewed).await.unwrap();
        assert!(next.is_valid());
    });
}
