//! `leasehold hold` on a real store.

use std::fs;
use std::process::Stdio;

use crate::support::docs::{self, Shell};
use crate::support::locks::{Store, failure};
use crate::support::{Running, until};
use rustix::process::Signal;

/// Starts `leasehold hold OPTIONS job`.
fn hold(store: &Store, options: &[&str]) -> Running {
    Running::start(store.leasehold().arg("hold").args(options).arg("job"))
}

fn token(running: &Running) -> u64 {
    running.line().parse().unwrap()
}

fn is_free(store: &Store) -> bool {
    store.json(&["inspect", "job"])["holder"].is_null()
}

#[test]
fn it_holds_until_stdin_ends() {
    let store = Store::new();
    let mut first = hold(&store, &[]);
    let held = token(&first);
    assert_eq!(store.json(&["inspect", "job"])["token"], held);
    // It ignores what it reads.
    first.say("still there");
    let (code, line) = failure(&store.act(&["run", "job", "--", "echo", "ran"]));
    assert_eq!(code, 75);
    assert!(line.contains("held by"), "{line}");
    assert_eq!(first.code(), 0);
    assert!(first.stderr().is_empty());
    assert!(is_free(&store), "released");
    let mut next = hold(&store, &[]);
    assert!(token(&next) > held);
    assert_eq!(next.code(), 0);
}

#[test]
fn a_signal_releases() {
    let store = Store::new();
    for (signal, code) in
        [(Signal::TERM, 143), (Signal::INT, 130), (Signal::QUIT, 131), (Signal::HUP, 129)]
    {
        let mut running = hold(&store, &[]);
        token(&running);
        // Does not ask leasehold to end.
        running.signal(Signal::USR1);
        running.signal(signal);
        // The signal ends it, not stdin, which is still open.
        assert!(running.until_all_gone().is_empty());
        assert_eq!(running.code(), code);
        assert!(is_free(&store), "released");
    }
}

#[test]
fn a_loss_ends_it() {
    let store = Store::new();
    let mut running = hold(&store, &["--lease", "5s"]);
    token(&running);
    store.ok(&["release", "--force", "job"]);
    assert!(running.until_all_gone().is_empty());
    assert_eq!(running.code(), 79);
    let lines = running.stderr();
    let ours: Vec<_> = lines.iter().filter(|line| line.starts_with("leasehold:")).collect();
    assert_eq!(ours, ["leasehold: lock lost: the store no longer has the grant"]);
}

#[test]
fn it_gives_up_when_stdin_ends_before_the_lock_is_free() {
    let store = Store::new();
    let mut holder = hold(&store, &[]);
    token(&holder);
    let mut waiter = hold(&store, &["--wait", "forever", "--conflict-exit-code", "7"]);
    assert_eq!(waiter.code(), 7);
    let lines = waiter.stderr();
    assert!(lines[0].contains("not acquired: stdin ended"), "{lines:?}");
    assert!(waiter.until_all_gone().is_empty());
    assert_eq!(holder.code(), 0);
    assert!(is_free(&store));
}

/// It would release at once, and the script would work without the lock.
#[test]
fn a_stdin_that_has_ended_from_the_beginning_is_refused() {
    let store = Store::new();
    let file = store.beside("input");
    fs::write(&file, "").unwrap();
    for (stdin, word) in
        [(Stdio::null(), "/dev/null"), (fs::File::open(&file).unwrap().into(), "a file")]
    {
        let output = store.leasehold().args(["hold", "job"]).stdin(stdin).output().unwrap();
        let (code, line) = failure(&output);
        assert_eq!(code, 64);
        assert!(line.contains(word) && line.contains("a pipe"), "{line}");
    }
    store.has_only_beside(&["input"]);
}

/// The script of docs/cli.md, and one that is killed.
#[test]
fn a_script_holds_it_by_a_coprocess() {
    let script = docs::block("docs/cli.md", "coproc LOCK");
    let shell = Shell::new();
    shell.program("work", "echo \"$2\"; read -r _");
    let start = || Running::start(shell.command("bash").args(["-c", &script]));
    let free = || shell.store.json(&["inspect", "nightly"])["holder"].is_null().then_some(());
    let mut running = start();
    token(&running);
    assert_eq!(free(), None);
    let mut second = start();
    assert_eq!(second.code(), 75);
    running.say("");
    assert_eq!(running.code(), 0);
    assert_eq!(free(), Some(()));
    let killed = start();
    token(&killed);
    assert_eq!(free(), None);
    killed.signal(Signal::KILL);
    until("the lock to be free", free);
}
