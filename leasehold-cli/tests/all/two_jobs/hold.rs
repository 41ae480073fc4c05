//! `hold` has said so and exited when the next holder begins.

use std::os::unix::process::ExitStatusExt as _;

use rustix::process::{Pid, Signal, kill_process};

use super::{LEASE, NOT_RENEWED, Pair, stop};
use crate::support::{Running, children, handle, stat, until, until_gone};

/// Starts `hold`, which reaches the store through the proxy, and reads its token.
fn hold(pair: &Pair) -> Running {
    let running = Running::start(pair.by_proxy().args(["hold", "--lease", LEASE, "job"]));
    running.line();
    running
}

/// The process that watches `hold`.
fn watcher_of(hold: &Running) -> Pid {
    let alive = |pid: &Pid| stat(*pid).is_some_and(|stat| stat[0] != "Z");
    until("a watcher", || children(hold.pid()).into_iter().find(alive))
}

/// Waits for the second job, and checks that the first has exited by then.
fn has_exited_before(pair: &Pair, first: &mut Running, what: &str) {
    let mut second = pair.second();
    second.line();
    assert!(first.has_ended(), "{what}: hold has not exited, and the second job runs");
    assert_eq!(second.code(), 0);
}

/// Cuts the store off. `hold` must end by itself: its watcher, which is stopped, cannot kill it.
async fn cut_off(pair: &Pair, first: &Running) -> Pid {
    let watcher = watcher_of(first);
    pair.cut_off().await;
    stop(watcher);
    watcher
}

/// Checks the exit code of `hold`, and that its last line says one of these.
fn exited(first: &mut Running, watcher: Pid, code: i32, said: &[&str]) {
    assert_eq!(first.code(), code);
    // It has stderr, too.
    let _ = kill_process(watcher, Signal::KILL);
    let last = first.stderr().pop().unwrap();
    assert!(said.iter().any(|said| last.contains(said)), "{last}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_is_cut_off() {
    let pair = Pair::new().await;
    let mut first = hold(&pair);
    let watcher = cut_off(&pair, &first).await;
    has_exited_before(&pair, &mut first, "store cut off");
    exited(&mut first, watcher, 79, &NOT_RENEWED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hold_is_stopped() {
    let pair = Pair::new().await;
    let mut first = hold(&pair);
    stop(first.pid());
    has_exited_before(&pair, &mut first, "hold stopped");
    // Its watcher has killed it.
    assert!(first.until_all_gone().is_empty());
    assert_eq!(first.ended().signal(), Some(Signal::KILL.as_raw()));
}

/// `hold` starts another watcher, and both end with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watcher_is_killed_or_stopped() {
    for signal in [Signal::KILL, Signal::STOP] {
        let pair = Pair::new().await;
        let mut first = hold(&pair);
        let watcher = watcher_of(&first);
        let gone = handle(watcher);
        kill_process(watcher, signal).unwrap();
        until_gone(&gone);
        let another = handle(watcher_of(&first));
        assert_eq!(first.code(), 0);
        until_gone(&another);
        assert!(pair.ok(&["inspect", "job"]).contains("free"));
    }
}

/// Its release has no answer, and it does not wait for one longer than it has the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_is_cut_off_and_hold_is_asked_to_end() {
    for by_signal in [true, false] {
        let pair = Pair::new().await;
        let mut first = hold(&pair);
        let watcher = cut_off(&pair, &first).await;
        if by_signal {
            first.signal(Signal::TERM);
        } else {
            first.close_stdin();
        }
        has_exited_before(&pair, &mut first, "asked to end, store cut off");
        let code = if by_signal { 143 } else { 0 };
        exited(&mut first, watcher, code, &["the lock ends with its lease"]);
    }
}

/// It waits for a reader of stderr at its exit, but not longer than it has the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stderr_is_full_and_the_store_is_cut_off() {
    let pair = Pair::new().await;
    let hold = ["hold", "--lease", LEASE, "job"];
    let (mut first, _unread) = Running::start_unread(pair.by_proxy().args(hold));
    first.line();
    pair.cut_off().await;
    has_exited_before(&pair, &mut first, "stderr full");
    // Its watcher has killed it while it waited.
    assert_eq!(first.ended().signal(), Some(Signal::KILL.as_raw()));
}
