//! Beside `etcdctl lock`: never two holders, and one queue for both.

use std::{process::Stdio, sync::Arc, time::Duration};

use conformance_tests::kit::Etcd;
use lock_core::{
    Attempt, Backend, Busy, Enqueued, Env as _, Grant, LockName, Mode, OwnerId, OwnerLabel,
    ReleaseOptions, Request, SystemEnv, Waiter,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::support::single;

/// Far more than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

async fn start() -> (Etcd, Arc<dyn Backend>) {
    let etcd = single().await;
    let url = format!("etcd://{}", etcd.endpoints()[0]);
    let backend = backend_etcd::connect(&url).await.unwrap();
    (etcd, backend)
}

fn name() -> LockName {
    LockName::new("job").unwrap()
}

fn request() -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    let label = OwnerLabel::new("interop").unwrap();
    Request::new(name(), owner, label, PATIENCE, SystemEnv.now())
}

/// An `etcdctl lock` that runs until it is told to end.
struct Theirs {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Theirs {
    fn start(etcd: &Etcd) -> Self {
        let mut command = Command::from(etcd.ctl_command().unwrap());
        command.args(["lock", "--ttl=30", "leasehold/job"]);
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// It prints its key when it holds the lock.
    async fn holds(&mut self) {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("it gets the lock");
        assert!(line.unwrap().unwrap().starts_with("leasehold/job/"));
    }

    /// On a signal it unlocks and ends.
    async fn end(mut self) {
        let pid = Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
    }
}

async fn waits(backend: &dyn Backend, request: &Request) -> (Box<dyn Waiter>, Busy) {
    match backend.enqueue(request).await.unwrap() {
        Enqueued::Waiting(turn, busy) => (turn, busy),
        other => panic!("two holders: {other:?}"),
    }
}

/// Waits for a push; polls do not count here.
async fn pushed(backend: &dyn Backend, request: &Request, turn: &mut dyn Waiter) -> Grant {
    let granted = async {
        loop {
            turn.next().await;
            if let Some(grant) = backend.try_acquire(request).await.unwrap().granted() {
                return grant;
            }
        }
    };
    timeout(PATIENCE, granted).await.expect("its turn is pushed")
}

/// Until so many wait behind the holder.
async fn queue_of(backend: &dyn Backend, places: u64) {
    let enough = async {
        while backend.inspect(&name()).await.unwrap().and_then(|state| state.waiting)
            != Some(places)
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, enough).await.expect("they wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_and_we_hold_in_turn_two_hundred_times() {
    let (etcd, backend) = start().await;
    let mut theirs = Theirs::start(&etcd);
    let mut last = None;
    for _ in 0..100 {
        theirs.holds().await;
        let request = request();
        let (mut turn, busy) = waits(&*backend, &request).await;
        let holder = busy.holder.unwrap();
        assert!(holder.label.as_str().starts_with("etcd lease "), "{holder:?}");
        theirs.end().await;
        let grant = pushed(&*backend, &request, &mut *turn).await;
        assert!(last < Some(grant.token), "{last:?} and then {}", grant.token);
        last = Some(grant.token);
        theirs = Theirs::start(&etcd);
        queue_of(&*backend, 1).await;
        // It is in the queue and has printed nothing yet.
        let early = timeout(Duration::ZERO, theirs.lines.next_line()).await;
        assert!(early.is_err(), "two holders: {early:?}");
        backend.release(&grant, ReleaseOptions::default()).await.unwrap();
    }
    theirs.holds().await;
    theirs.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_of_ours_keeps_its_place_between_two_of_theirs() {
    let (etcd, backend) = start().await;
    let mut before = Theirs::start(&etcd);
    before.holds().await;
    let request = request();
    let (mut turn, _) = waits(&*backend, &request).await;
    let mut after = Theirs::start(&etcd);
    queue_of(&*backend, 2).await;
    before.end().await;
    let grant = pushed(&*backend, &request, &mut *turn).await;
    let early = timeout(Duration::ZERO, after.lines.next_line()).await;
    assert!(early.is_err(), "two holders: {early:?}");
    backend.release(&grant, ReleaseOptions::default()).await.unwrap();
    after.holds().await;
    after.end().await;
}

async fn reads(backend: &dyn Backend) -> Grant {
    let attempt = backend.try_acquire(&request().with_mode(Mode::Shared)).await.unwrap();
    attempt.granted().expect("readers share")
}

/// To etcd's own tools each reader is a place before theirs, and to a reader each of theirs is a writer.
#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_waits_for_all_readers_and_readers_wait_behind_it() {
    let (etcd, backend) = start().await;
    let [one, two] = [reads(&*backend).await, reads(&*backend).await];
    let mut theirs = Theirs::start(&etcd);
    queue_of(&*backend, 1).await;
    assert_eq!(backend.inspect(&name()).await.unwrap().unwrap().readers, Some(2));

    // No reader passes it, neither at once nor by a place.
    let behind = request().with_mode(Mode::Shared);
    let late = backend.try_acquire(&behind).await.unwrap();
    assert!(matches!(late, Attempt::Busy(_)), "a reader passed it: {late:?}");
    let behind = request().with_mode(Mode::Shared);
    let (mut turn, _) = waits(&*backend, &behind).await;
    let state = backend.inspect(&name()).await.unwrap().unwrap();
    assert_eq!((state.readers, state.waiting), (Some(2), Some(2)));

    // The last that came in leaves first: the other is still before it.
    for reader in [&two, &one] {
        let early = timeout(Duration::ZERO, theirs.lines.next_line()).await;
        assert!(early.is_err(), "it has the lock beside a reader: {early:?}");
        backend.release(reader, ReleaseOptions::default()).await.unwrap();
    }
    theirs.holds().await;
    let state = backend.inspect(&name()).await.unwrap().unwrap();
    assert_eq!((state.readers, state.waiting), (None, Some(1)));
    let beside = backend.try_acquire(&behind).await.unwrap();
    assert!(matches!(beside, Attempt::Busy(_)), "a reader beside it: {beside:?}");
    theirs.end().await;
    let reader = pushed(&*backend, &behind, &mut *turn).await;
    assert!(reader.token > one.token.max(two.token));
    reads(&*backend).await;
}
