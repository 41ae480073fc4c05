//! Clients that are closed, and callers without a runtime.

#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, too

mod support;

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
    Backend as _, Blocked, BoxFuture, ClientOptions, Env, Error, ErrorKind, Guard, Instant,
    LockClient, LockName, Memory, NoRuntime, SystemEnv,
};
use support::Gate;
use tokio::{runtime::Runtime, task::JoinHandle};

const LONG: Duration = Duration::from_secs(30);

fn client(gate: &Arc<Gate>, call_timeout: Duration) -> LockClient {
    let options = ClientOptions { call_timeout, ..ClientOptions::default() };
    LockClient::with_options(gate.clone(), Arc::new(SystemEnv), options).unwrap()
}

#[tokio::test]
async fn an_acquire_that_tries_again_and_again_ends_when_the_client_is_closed() {
    let gate = Gate::new();
    gate.down.store(true, Ordering::SeqCst);
    let client = client(&gate, Duration::from_secs(60));
    let acquire = tokio::spawn(client.lock("job").acquire());
    gate.next_attempt().await;
    // Waits for the acquire as for every call in flight, but not for its whole limit.
    tokio::time::timeout(Duration::from_secs(30), client.close()).await.unwrap();
    let error = acquire.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[tokio::test]
async fn a_grant_that_comes_after_close_is_given_back() {
    let gate = Gate::new();
    gate.shut.store(true, Ordering::SeqCst);
    // A store that is slower than the limit of `close`, and an attempt that began with another.
    let client = client(&gate, Duration::from_millis(50));
    let mut acquire = Box::pin(client.lock("job").acquire());
    assert!(acquire.as_mut().now_or_never().is_none());
    client.close().await;
    gate.shut.store(false, Ordering::SeqCst);
    gate.open.notify_one();
    let error = acquire.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let name = LockName::new("job").unwrap();
    let held = || async { gate.memory.inspect(&name).await.unwrap().and_then(|job| job.holder) };
    for _ in 0..1_000 {
        if held().await.is_none() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("left behind: {:?}", held().await);
}

/// The keeper has it no more, and its caller may be about to drop it.
#[tokio::test]
async fn close_waits_for_a_release_that_a_guard_has_begun() {
    for dropped in [false, true] {
        let gate = Gate::new();
        let client = client(&gate, LONG);
        let guard = client.lock("job").lease(LONG).acquire().await.unwrap();
        gate.slow.store(true, Ordering::SeqCst);
        let mut release = Box::pin(guard.release());
        assert!(release.as_mut().now_or_never().is_none(), "it is slow");
        let mut close = Box::pin(client.close());
        assert!(close.as_mut().now_or_never().is_none(), "the store is closed under a release");
        gate.open.notify_one();
        if dropped {
            drop(release);
            close.await;
        } else {
            futures_util::future::join(release, close).await.0.unwrap();
        }
        let name = LockName::new("job").unwrap();
        assert_eq!(gate.memory.inspect(&name).await.unwrap(), None, "left behind");
    }
}

/// Two that close a client at once: the second does not close the store under the first's releases.
#[tokio::test]
async fn each_close_waits_for_the_releases_of_the_other() {
    let gate = Gate::new();
    let client = client(&gate, LONG);
    let guard = client.lock("job").lease(LONG).acquire().await.unwrap();
    gate.slow.store(true, Ordering::SeqCst);
    let mut first = Box::pin(client.close());
    assert!(first.as_mut().now_or_never().is_none(), "it is slow");
    let mut second = Box::pin(client.close());
    assert!(second.as_mut().now_or_never().is_none(), "the store is closed under a release");
    gate.open.notify_one();
    futures_util::future::join(first, second).await;
    assert_eq!(gate.memory.inspect(guard.name()).await.unwrap(), None, "left behind");
}

#[test]
fn waiting_without_a_runtime_is_refused_and_harms_nobody() {
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

#[tokio::test]
async fn a_wait_that_ends_before_the_store_has_a_place_names_the_holder() {
    let gate = Gate::new();
    let holder = LockClient::new(Arc::new(gate.memory.clone()));
    let held = holder.lock("job").acquire().await.unwrap();
    gate.mute.store(true, Ordering::SeqCst);
    let client = client(&gate, Duration::from_secs(60));
    let error = client.lock("job").wait(Duration::from_millis(50)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let Some(Blocked::Busy(busy)) = error.blocked() else { panic!("{error}") };
    assert_eq!(busy.holder.as_ref().unwrap().owner, held.owner());
}

#[tokio::test]
async fn a_waiter_whose_question_hangs_takes_another_place() {
    let gate = Gate::new();
    let holder = LockClient::new(Arc::new(gate.memory.clone()));
    let held = holder.lock("job").acquire().await.unwrap();
    let client = client(&gate, Duration::from_millis(50));
    gate.deaf.store(true, Ordering::SeqCst);
    let lock = client.lock("job").lease(Duration::from_secs(1)).wait(Duration::from_secs(30));
    let waiter = tokio::spawn(lock.acquire());
    // The first attempt is answered; the place, which hears nothing, then asks, and that hangs.
    gate.next_attempt().await;
    gate.shut.store(true, Ordering::SeqCst);
    gate.next_attempt().await;
    gate.deaf.store(false, Ordering::SeqCst);
    gate.shut.store(false, Ordering::SeqCst);
    held.release().await.unwrap();
    let served = tokio::time::timeout(Duration::from_secs(20), waiter).await.unwrap().unwrap();
    served.expect("another place was taken").release().await.unwrap();
}

/// What a failed release says of the lock says nothing of the place of the request that it carried.
#[tokio::test]
async fn a_place_is_given_up_that_was_carried_by_a_release_which_was_refused() {
    let gate = Gate::new();
    let holder = LockClient::new(Arc::new(gate.memory.clone()));
    let held = holder.lock("job").acquire().await.unwrap();
    let client = client(&gate, LONG);
    let wait = || tokio::spawn(client.lock("job").lease(LONG).wait(LONG * 2).acquire());
    let first = wait();
    a_place_is_taken(&gate.memory).await;
    let second = wait();
    held.release().await.unwrap();
    let first = tokio::time::timeout(LONG, first).await.unwrap().unwrap().unwrap();
    gate.halves.store(true, Ordering::SeqCst);
    first.release().await.unwrap();
    assert!(!gate.halves.load(Ordering::SeqCst), "nothing was carried");
    let served = tokio::time::timeout(LONG, second).await.expect("it stands behind itself");
    served.unwrap().unwrap().release().await.unwrap();
    assert_eq!(gate.abandoned.load(Ordering::SeqCst), 1);
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
    let gate = Gate::new();
    gate.shut.store(true, Ordering::SeqCst);
    let client = client(&gate, LONG);
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
    let waiting = gate.memory.inspect(&name).await.unwrap().unwrap().waiting;
    assert_eq!((gate.attempts.load(Ordering::SeqCst), waiting), (1, Some(0)), "others have asked");
    gate.shut.store(false, Ordering::SeqCst);
    gate.open.notify_one();
    for at in 0..TASKS {
        let next = tokio::time::timeout(LONG, served.recv()).await.expect("nobody is served");
        assert_eq!(next, Some((at, LONG - Duration::from_millis(at as u64))));
    }
    let attempts = gate.attempts.load(Ordering::SeqCst);
    assert!(attempts <= 2, "{attempts} attempts: one, and a poll of the place at most");
}

/// Its caller drops it, its time is over, or the store refuses it.
#[tokio::test]
async fn a_first_attempt_that_is_given_up_is_followed_by_the_next_at_once() {
    for ending in ["dropped", "over", "refused"] {
        let gate = Gate::new();
        let client = client(&gate, LONG);
        gate.shut.store(true, Ordering::SeqCst);
        gate.broken.store(ending == "refused", Ordering::SeqCst);
        let wait = if ending == "over" { Duration::from_millis(50) } else { 2 * LONG };
        let first = tokio::spawn(client.lock("job").lease(LONG).wait(wait).acquire());
        gate.next_attempt().await;
        let second = tokio::spawn(client.lock("job").lease(LONG).wait(2 * LONG).acquire());
        let third = tokio::spawn(client.lock("job").lease(LONG).acquire());
        all_wait().await;
        third.abort();
        match ending {
            "dropped" => first.abort(),
            "over" => assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout),
            _ => {
                gate.open.notify_one();
                assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::Auth);
            }
        }
        if ending != "refused" {
            // The store has granted the attempt and not answered; behind it the next has a place.
            a_place_is_taken(&gate.memory).await;
            gate.open.notify_one();
        }
        let served = tokio::time::timeout(LONG, second).await.expect(ending).unwrap();
        served.unwrap().release().await.unwrap();
        assert_eq!(gate.attempts.load(Ordering::SeqCst), 1, "{ending}");
    }
}

/// The driver goes with the last that waits behind a first attempt; the next that comes has one all the same.
#[tokio::test]
async fn waiters_may_come_and_go_behind_a_first_attempt() {
    let gate = Gate::new();
    let client = client(&gate, LONG);
    gate.shut.store(true, Ordering::SeqCst);
    let lock = || client.lock("job").lease(LONG).wait(2 * LONG);
    let first = tokio::spawn(lock().acquire());
    gate.next_attempt().await;
    for _ in 0..3 {
        let waiter = tokio::spawn(lock().acquire());
        all_wait().await;
        waiter.abort();
        all_wait().await;
    }
    let last = tokio::spawn(lock().acquire());
    all_wait().await;
    assert_eq!(gate.attempts.load(Ordering::SeqCst), 1);
    gate.open.notify_one();
    first.await.unwrap().unwrap().release().await.unwrap();
    let served = tokio::time::timeout(LONG, last).await.expect("nobody asks").unwrap();
    served.unwrap().release().await.unwrap();
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Two wait on a runtime of their own; the first is served and drops its guard. The keeper's runtime has
/// stood still since before that. Returns the second.
fn one_waits_behind_a_release(
    client: &LockClient,
    memory: &Memory,
    lease: Duration,
    [keepers, waiters]: [&Runtime; 2],
) -> JoinHandle<Result<Guard, Error>> {
    let lock = || client.lock("job").lease(lease);
    // What was acquired first says where the keeper runs.
    let held = keepers.block_on(lock().acquire()).unwrap();
    let (first, second) = (waiters.spawn(lock().acquire()), waiters.spawn(lock().acquire()));
    waiters.block_on(async {
        a_place_is_taken(memory).await;
        held.release().await.unwrap();
        drop(tokio::time::timeout(LONG, first).await.unwrap().unwrap().unwrap());
    });
    second
}

async fn a_place_is_taken(memory: &Memory) {
    let name = LockName::new("job").unwrap();
    let taken = async {
        while memory.inspect(&name).await.unwrap().and_then(|state| state.waiting) != Some(1) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG / 3, taken).await.expect("nobody has a place");
}

#[test]
fn waiters_are_served_though_the_release_before_them_never_ran() {
    let memory = Memory::new();
    let client = LockClient::new(Arc::new(memory.clone()));
    let [keepers, waiters] = [runtime(), runtime()];
    // Its place is taken long before the lease is over, at which the driver looks by itself.
    let second = one_waits_behind_a_release(&client, &memory, LONG, [&keepers, &waiters]);
    drop(keepers);
    waiters.block_on(async {
        a_place_is_taken(&memory).await;
        memory.force_release(&LockName::new("job").unwrap()).await.unwrap();
        let served = tokio::time::timeout(LONG, second).await.expect("it waits for ever");
        drop(served.unwrap().unwrap());
    });
}

#[test]
fn waiters_are_served_though_the_release_before_them_never_ends() {
    let memory = Memory::new();
    let client = LockClient::new(Arc::new(memory.clone()));
    let [keepers, waiters] = [runtime(), runtime()];
    let lease = Duration::from_millis(300);
    let second = one_waits_behind_a_release(&client, &memory, lease, [&keepers, &waiters]);
    let served = waiters.block_on(async { tokio::time::timeout(LONG, second).await });
    drop(served.expect("it waits for ever").unwrap().unwrap());
}

/// The real world, in which tasks are counted as they begin.
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

/// What the keeper had is lost with it. What comes in from then on has a keeper of its own, in the runtime of
/// whoever acquired it, and is not taken for what was lost.
#[test]
fn a_guard_that_is_acquired_while_the_keeper_ends_is_kept_by_the_next() {
    let env = Arc::new(Counted::default());
    let memory = Arc::new(Memory::new());
    let client = LockClient::with_options(memory, env.clone(), ClientOptions::default()).unwrap();
    let lease = LONG / 3;
    let keepers = runtime();
    let first = keepers.block_on(client.lock("first").lease(lease).acquire()).unwrap();
    assert_eq!(env.begun(), 1);
    let (begun, begins) = mpsc::channel();
    let ends = thread::spawn(move || {
        begins.recv().unwrap();
        drop(keepers);
    });
    runtime().block_on(async {
        let mut before = vec![first];
        // Again and again, so that some are registered while it ends.
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
        assert!(next.is_valid(), "it has a keeper");
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
