//! Beside `etcdctl lock`: never two holders, and one queue for both.

use std::{process::Stdio, time::Duration};

use backend_etcd::{EntryKey, KeyLayout};
use lock_core::{Backend, Grant, Mode, Request};
use rustix::process::{Pid, Signal, kill_process};
use servers::Etcd;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::support::{
    WAIT, busy, connect, granted, name, pushed, queue_of, release, request, single, waits,
};

/// An `etcdctl lock` that runs until it is told to end.
struct Etcdctl {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Etcdctl {
    fn lock(etcd: &Etcd) -> Self {
        let mut command = Command::from(etcd.ctl_command().unwrap());
        command.args(["lock", "--ttl=30", "leasehold/job"]);
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// It prints its key when it holds the lock.
    async fn holds(&mut self) {
        let line = timeout(WAIT, self.lines.next_line()).await.expect("it gets the lock");
        let (key, layout) = (line.unwrap().unwrap(), KeyLayout::new("leasehold/"));
        let EntryKey { name: of, number, mode } = layout.read(&key).unwrap();
        assert_eq!((of, mode), (name(), Mode::Exclusive));
        assert_eq!(layout.entry(&name(), mode, number), key);
    }

    async fn does_not_hold(&mut self) {
        let early = timeout(Duration::ZERO, self.lines.next_line()).await;
        assert!(early.is_err(), "two holders: {early:?}");
    }

    /// On a signal it unlocks and ends.
    async fn end(mut self) {
        let pid = Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        timeout(WAIT, self.child.wait()).await.expect("it ends").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_and_leasehold_hold_in_turn_two_hundred_times() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "5s").await;
    let mut theirs = Etcdctl::lock(&etcd);
    let mut last = None;
    for _ in 0..100 {
        theirs.holds().await;
        let wanted = request();
        let holder = busy(&*backend, &wanted).await.holder.unwrap();
        assert!(holder.label.as_str().starts_with("etcd lease "), "{holder:?}");
        let mut waiter = waits(&*backend, &wanted).await;
        theirs.end().await;
        let grant = pushed(&*backend, &wanted, &mut *waiter).await;
        assert!(last < Some(grant.token), "{last:?} and then {}", grant.token);
        last = Some(grant.token);
        theirs = Etcdctl::lock(&etcd);
        queue_of(&*backend, 1).await;
        theirs.does_not_hold().await;
        release(&*backend, &grant).await;
    }
    theirs.holds().await;
    theirs.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_keeps_its_place_between_two_of_etcdctl() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "5s").await;
    let mut before = Etcdctl::lock(&etcd);
    before.holds().await;
    let wanted = request();
    let mut waiter = waits(&*backend, &wanted).await;
    let mut after = Etcdctl::lock(&etcd);
    queue_of(&*backend, 2).await;
    before.end().await;
    let grant = pushed(&*backend, &wanted, &mut *waiter).await;
    after.does_not_hold().await;
    release(&*backend, &grant).await;
    after.holds().await;
    after.end().await;
}

fn reader() -> Request {
    request().with_mode(Mode::Shared)
}

async fn reads(backend: &dyn Backend) -> Grant {
    granted(backend, &reader()).await
}

/// For etcd's own tools each reader is an entry before theirs, and for a reader each of theirs is a
/// writer.
#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_waits_for_all_readers_and_readers_wait_behind_it() {
    let etcd = single().await;
    let backend = connect(etcd.endpoints()[0], "5s").await;
    let counts = async || {
        let state = backend.inspect(&name()).await.unwrap().unwrap();
        (state.readers, state.waiting)
    };
    let [one, two] = [reads(&*backend).await, reads(&*backend).await];
    let mut theirs = Etcdctl::lock(&etcd);
    queue_of(&*backend, 1).await;
    assert_eq!(counts().await, (Some(2), Some(1)));

    // No reader overtakes it, neither at once nor with a queue entry.
    busy(&*backend, &reader()).await;
    let behind = reader();
    let mut waiter = waits(&*backend, &behind).await;
    assert_eq!(counts().await, (Some(2), Some(2)));

    // The newest reader leaves first: the other still blocks etcdctl.
    for reader in [&two, &one] {
        theirs.does_not_hold().await;
        release(&*backend, reader).await;
    }
    theirs.holds().await;
    assert_eq!(counts().await, (None, Some(1)));
    busy(&*backend, &behind).await;
    theirs.end().await;
    let reader = pushed(&*backend, &behind, &mut *waiter).await;
    assert!(reader.token > one.token.max(two.token));
    reads(&*backend).await;
}
