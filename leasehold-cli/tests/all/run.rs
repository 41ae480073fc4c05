//! `leasehold run` on a real store.

use std::time::Instant;

use crate::support::locks::{Store, Unprivileged, failure, open_up};
use crate::support::{Running, handle, only_child, pid, until_gone};
use rustix::process::{Signal, kill_process};

/// Says its token and waits for a line.
const HOLD: &str = "echo $LEASEHOLD_TOKEN; read -r _ || :";

fn token(running: &Running) -> u64 {
    running.line().parse().unwrap()
}

#[test]
fn the_environment_names_the_lock_and_its_owner() {
    let store = Store::new();
    let mut running = store.run(&[], "echo $LEASEHOLD_NAME; echo $LEASEHOLD_OWNER; read -r _ || :");
    assert_eq!(running.line(), "job");
    let owner = running.line();
    assert_eq!(store.json(&["inspect", "job"])["holder"]["owner"], owner);
    assert_eq!(running.code(), 0);
    assert!(store.json(&["inspect", "job"])["holder"].is_null(), "released");
}

/// The URL of a store may hold its password.
#[test]
fn the_command_does_not_inherit_the_store_unless_it_is_asked_for() {
    let store = Store::new();
    let script = "env | grep -a LEASEHOLD_STORE; tr '\\0' '\\n' < /proc/$PPID/environ | grep -a STORE=; echo ended";
    let mut running = store.run(&[], script);
    assert_eq!(running.line(), "ended");
    assert_eq!(running.code(), 0);
    let mut running = store.run(&["--pass-store"], "echo $LEASEHOLD_STORE");
    assert_eq!(running.line(), store.url());
    assert_eq!(running.code(), 0);
    // Also where an option names it, and where that is not the one of the environment.
    let mut command = store.leasehold();
    command.env("LEASEHOLD_STORE", "sqlite:other.db").args(["run", "--store", &store.url()]);
    command.args(["--pass-store", "job", "--", "sh", "-c", "echo $LEASEHOLD_STORE"]);
    assert_eq!(String::from_utf8(command.output().unwrap().stdout).unwrap().trim(), store.url());
}

#[test]
fn a_held_lock_is_refused_at_once_and_its_holder_named() {
    let store = Store::new();
    let mut holder = store.run(&[], "echo $LEASEHOLD_OWNER; read -r _ || :");
    let owner = holder.line();
    let process = format!(":{}\" ", holder.pid().as_raw_nonzero());
    for (options, code) in [
        (&["--wait", "0s"][..], 75),
        (&[], 75),
        (&["--conflict-exit-code", "0"], 0),
        // Long enough for one answer of the store on a busy machine: without one, the code is 69.
        (&["--wait", "3s", "--conflict-exit-code", "3"], 3),
    ] {
        let mut args = vec!["run"];
        args.extend(options);
        args.extend(["job", "--", "echo", "ran"]);
        let (given, line) = failure(&store.act(&args));
        assert_eq!(given, code);
        for word in ["\"job\"", "not acquired", &owner, &process] {
            assert!(line.contains(word), "{word} in {line}");
        }
    }
    // Another name is another lock.
    assert_eq!(store.ok(&["run", "other", "--", "echo", "ran"]), "ran\n");
    assert_eq!(holder.code(), 0);
}

#[test]
fn waiting_ends_when_the_holder_is_done() {
    let store = Store::new();
    for wait in ["60s", "forever"] {
        let mut holder = store.run(&[], HOLD);
        let first = token(&holder);
        let mut next = store.run(&["--wait", wait], "echo $LEASEHOLD_TOKEN");
        assert_eq!(holder.code(), 0);
        assert!(token(&next) > first);
        assert_eq!(next.code(), 0);
    }
}

#[test]
fn the_lock_is_held_for_as_long_as_the_command_runs() {
    let store = Store::new();
    let mut holder = store.run(&["--lease", "5s"], HOLD);
    let first = token(&holder);
    // Longer than a lease.
    let (code, _) = failure(&store.act(&["run", "--wait", "6s", "job", "--", "true"]));
    assert_eq!(code, 75);
    assert_eq!(store.json(&["inspect", "job"])["token"], first);
    assert_eq!(holder.code(), 0);
    assert!(holder.stderr().is_empty());
}

#[test]
fn exit_codes_pass_through_and_the_lock_is_released() {
    let store = Store::new();
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("exit 79", 79), ("kill -TERM $$", 143)] {
        let mut running = store.run(&[], script);
        assert_eq!(running.code(), code, "{script}");
        assert!(running.stderr().is_empty(), "{script}");
    }
    for (program, code) in [("no-such-command", 127), ("/etc/passwd", 126)] {
        let (given, line) = failure(&store.act(&["run", "job", "--", program]));
        assert_eq!(given, code);
        assert!(line.contains(program), "{line}");
        assert!(store.json(&["inspect", "job"])["holder"].is_null(), "released");
    }
}

#[test]
fn a_part_of_path_that_may_not_be_searched_holds_no_program() {
    let user = Unprivileged::new();
    let private = user.home().join("private");
    std::fs::create_dir(&private).unwrap();
    open_up(&private, 0o000);
    let mut command = user.leasehold();
    command.env("PATH", format!("{}:/usr/bin:/bin", private.display()));
    let output = command.args(["run", "job", "--", "no-such-command"]).output().unwrap();
    open_up(&private, 0o755);
    let (code, line) = failure(&output);
    assert_eq!(code, 127, "{line}");
    assert!(line.contains("no-such-command"), "{line}");
}

#[test]
fn a_signal_ends_the_wait_and_leaves_nothing_behind() {
    let store = Store::new();
    let mut holder = store.run(&[], HOLD);
    token(&holder);
    let mut waiter = store.run(&["--wait", "forever"], "echo ran");
    // Signals are caught before the store is opened, so this is never too early; and the wait for
    // the lock cannot end before it.
    until_caught(&waiter);
    waiter.signal(Signal::TERM);
    assert_eq!(waiter.code(), 143);
    assert!(waiter.until_all_gone().is_empty());
    assert_eq!(holder.code(), 0);
    assert_eq!(store.ok(&["run", "job", "--", "echo", "free"]), "free\n");
}

/// Waits until leasehold handles SIGTERM. Nobody is told of that, so this looks again and again.
fn until_caught(running: &Running) {
    let status = format!("/proc/{}/status", running.pid().as_raw_nonzero());
    let start = Instant::now();
    loop {
        let text = std::fs::read_to_string(&status).unwrap();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        if u64::from_str_radix(mask.trim(), 16).unwrap() >> (15 - 1) & 1 == 1 {
            return;
        }
        assert!(start.elapsed() < crate::support::LIMIT, "signals are not caught");
        std::thread::yield_now();
    }
}

#[test]
fn a_killed_holder_takes_its_command_along_and_frees_the_lock() {
    let store = Store::new();
    let mut holder =
        store.run(&["--lease", "5s"], "echo $LEASEHOLD_TOKEN; echo $$; exec sleep 1000");
    let first = token(&holder);
    let command = handle(pid(&holder.line()));
    let mut next = store.run(&["--wait", "60s"], "echo $LEASEHOLD_TOKEN");
    holder.signal(Signal::KILL);
    until_gone(&command);
    assert!(token(&next) > first);
    assert_eq!(next.code(), 0);
    assert!(!holder.ended().success());
}

#[test]
fn a_killed_job_reaper_releases_the_lock() {
    let store = Store::new();
    let mut holder = store.run(&[], "echo $LEASEHOLD_TOKEN; exec sleep 1000");
    token(&holder);
    kill_process(only_child(holder.pid()), Signal::KILL).unwrap();
    assert_eq!(holder.code(), 137);
    assert_eq!(store.ok(&["run", "job", "--", "echo", "free"]), "free\n");
}
