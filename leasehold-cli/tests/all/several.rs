//! Several locks, and permits, under one COMMAND.

use std::time::Duration;

use crate::support::Running;
use crate::support::locks::{Store, failure};

/// Starts `leasehold ACTION ARGS`.
fn start(store: &Store, args: &[&str]) -> Running {
    Running::start(store.leasehold().args(args))
}

fn holder(store: &Store, name: &str) -> Option<String> {
    store.json(&["inspect", name])["holder"]["owner"].as_str().map(str::to_owned)
}

/// The one line about a loss; the shell may have words of its own.
fn told_of_loss(running: &Running) -> String {
    let mut lines = running.stderr();
    lines.retain(|line| line.starts_with("leasehold:"));
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

#[test]
fn of_four_jobs_three_have_permits() {
    let store = Store::new();
    let permits = ["run", "--permits", "3"];
    let script = "echo $LEASEHOLD_PERMIT; echo $LEASEHOLD_TOKEN $LEASEHOLD_OWNER; \
                  echo $LEASEHOLD_NAME; read -r _ || :";
    let mut jobs = Vec::new();
    let mut slots = Vec::new();
    for _ in 0..3 {
        let job = start(&store, &[&permits[..], &["pool", "--", "sh", "-c", script]].concat());
        let (slot, ids) = (job.line(), job.line());
        assert_eq!(job.line(), "pool");
        let state = store.json(&["inspect", &slot]);
        let owner = state["holder"]["owner"].as_str().unwrap();
        assert_eq!(ids, format!("{} {owner}", state["token"]));
        slots.push(slot);
        jobs.push(job);
    }
    slots.sort();
    assert_eq!(slots, ["pool/0", "pool/1", "pool/2"]);
    let refused = [&permits[..], &["--wait", "0s", "pool", "--", "echo", "ran"]].concat();
    let (code, line) = failure(&store.act(&refused));
    assert_eq!(code, 75);
    let processes = jobs.iter().map(|job| format!(":{}\" ", job.pid().as_raw_nonzero()));
    assert!(line.contains("none of the 3 permits of \"pool\" acquired: all are held"), "{line}");
    assert_eq!(processes.filter(|process| line.contains(process)).count(), 1, "{line}");

    // One that waits gets the permit of the one that ends.
    let waiting = [&permits[..], &["--wait", "60s", "pool", "--", "sh", "-c", script]].concat();
    let mut next = start(&store, &waiting);
    let mut first = jobs.remove(0);
    assert_eq!(first.code(), 0);
    assert!(slots.contains(&next.line()));
    assert_eq!(next.code(), 0);
    for mut job in jobs {
        assert_eq!(job.code(), 0);
        assert!(job.stderr().is_empty());
    }
    for name in ["pool", "pool/0", "pool/1", "pool/2"] {
        assert_eq!(holder(&store, name), None, "{name} is released");
    }
}

#[test]
fn a_wait_without_success_names_the_holder_of_a_permit_and_not_the_client_at_the_door() {
    let store = Store::new();
    let job = ["run", "--permits", "1", "--wait"];
    let mut first = start(
        &store,
        &[&job[..], &["0s", "pool", "--", "sh", "-c", "echo up; read -r _"]].concat(),
    );
    assert_eq!(first.line(), "up");
    let mut at_the_door = start(&store, &[&job[..], &["60s", "pool", "--", "true"]].concat());
    crate::support::until("nobody is at the door", || holder(&store, "pool"));
    let (code, line) =
        failure(&store.act(&[&job[..], &["3s", "pool", "--", "echo", "ran"]].concat()));
    assert_eq!(code, 75);
    let process = format!(":{}\" ", first.pid().as_raw_nonzero());
    assert!(line.contains(&process) && line.contains("within 3s"), "{line}");
    first.say("");
    assert!(first.until_all_gone().is_empty());
    assert_eq!(at_the_door.code(), 0);
}

#[test]
fn a_minimum_hold_is_of_every_lock_and_of_the_permit() {
    let store = Store::new();
    store.ok(&["run", "--at-least", "20s", "b", "--also", "a", "--", "true"]);
    store.ok(&["run", "--at-least", "20s", "--permits", "1", "pool", "--", "true"]);
    for name in ["a", "b", "pool/0"] {
        assert_eq!(store.json(&["inspect", name])["kept"], true, "{name}");
    }
}

#[test]
fn all_locks_are_held_and_released() {
    let store = Store::new();
    // The later one has the larger token: the variables are in the order of the names given.
    store.ok(&["run", "b", "--", "true"]);
    let script = "echo $LEASEHOLD_NAME $LEASEHOLD_TOKEN $LEASEHOLD_OWNER; echo $LEASEHOLD_TOKENS; \
                  echo \"[$LEASEHOLD_PERMIT]\"; read -r _ || :";
    let args = ["run", "b", "--also", "a", "--also", "c", "--", "sh", "-c", script];
    let mut command = store.leasehold();
    command.env("LEASEHOLD_PERMIT", "of another").args(args);
    let mut job = Running::start(&mut command);
    let (first, tokens) = (job.line(), job.line());
    assert_eq!(job.line(), "[]");
    let states = ["b", "a", "c"].map(|name| store.json(&["inspect", name]));
    let expected: Vec<_> = states.iter().map(|state| state["token"].to_string()).collect();
    assert_eq!(tokens, expected.join(" "));
    assert_eq!(
        first,
        format!("b {} {}", expected[0], states[0]["holder"]["owner"].as_str().unwrap())
    );
    // The line names the lock that is held.
    let (code, line) = failure(&store.act(&["run", "d", "--also", "c", "--", "echo", "ran"]));
    assert_eq!(code, 75);
    assert!(line.contains("lock \"c\" not acquired: held by"), "{line}");
    assert_eq!(job.code(), 0);
    assert!(job.stderr().is_empty());
    for name in ["a", "b", "c", "d"] {
        assert_eq!(holder(&store, name), None, "{name} is released");
    }
}

#[test]
fn opposite_orders_do_not_wait_for_each_other() {
    let store = Store::new();
    let jobs: Vec<_> = (0..8)
        .map(|at| {
            let (one, two) = if at % 2 == 0 { ("a", "b") } else { ("b", "a") };
            start(&store, &["run", "--wait", "60s", one, "--also", two, "--", "true"])
        })
        .collect();
    for mut job in jobs {
        assert_eq!(job.code(), 0);
    }
}

#[test]
fn the_loss_of_one_of_several_ends_the_command() {
    let store = Store::new();
    let script = ["--", "sh", "-c", "echo up; exec sleep 1000"];
    let jobs = [
        (&["a", "--also", "b"][..], "b"),
        (&["c", "--also", "d"], "c"),
        (&["--permits", "1", "a/b"], "a/b/0"),
    ]
    .map(|(options, name)| {
        let job = start(&store, &[&["run", "--lease", "5s"], options, &script].concat());
        assert_eq!(job.line(), "up");
        (job, name)
    });
    for (mut job, name) in jobs {
        store.ok(&["release", "--force", name]);
        assert!(job.until_all_gone().is_empty());
        assert_eq!(job.code(), 79);
        let line = format!(
            "leasehold: lock lost: the store no longer has the grant (lock \"{name}\"); COMMAND was ended"
        );
        assert_eq!(told_of_loss(&job), line);
    }
    for name in ["a", "b", "c", "d", "a/b/0"] {
        assert_eq!(holder(&store, name), None, "{name} is released");
    }
}

/// COMMAND ends before the loss is noticed. The release reports it, for each of the locks.
#[test]
fn a_loss_that_the_release_finds_is_told() {
    let store = Store::new();
    let lease = ["run", "--lease", "30s", "a", "--also", "b"];
    let mut job =
        start(&store, &[&lease[..], &["--", "sh", "-c", "echo up; read -r _ || :"]].concat());
    assert_eq!(job.line(), "up");
    store.ok(&["release", "--force", "b"]);
    assert_eq!(job.code(), 79);
    let line = told_of_loss(&job);
    assert!(line.contains("lock \"b\"") && line.contains("exit code 0"), "{line}");
    assert_eq!(holder(&store, "a"), None, "released");
}

#[test]
fn hold_prints_all_tokens_or_the_permit() {
    let store = Store::new();
    let mut several = start(&store, &["hold", "b", "--also", "a"]);
    let told = several.line();
    let tokens = ["b", "a"].map(|name| store.json(&["inspect", name])["token"].to_string());
    assert_eq!(told, tokens.join(" "));
    assert_eq!(several.code(), 0);
    let mut permit = start(&store, &["hold", "--permits", "1", "pool"]);
    let told = permit.line();
    assert_eq!(told, format!("{} pool/0", store.json(&["inspect", "pool/0"])["token"]));
    assert_eq!(permit.code(), 0);
    for name in ["a", "b", "pool/0"] {
        assert_eq!(holder(&store, name), None, "{name} is released");
    }
    let mut lost = start(&store, &["hold", "--lease", "5s", "b", "--also", "a"]);
    lost.line();
    store.ok(&["release", "--force", "a"]);
    assert_eq!(lost.code(), 79);
    assert!(told_of_loss(&lost).ends_with("(lock \"a\")"));
}

/// In one line, before there is a store.
#[test]
fn what_cannot_work_is_refused_before_the_store_is_touched() {
    let store = Store::new();
    let long = "x".repeat(254);
    for (options, words) in [
        (&["--permits", "0", "a"][..], &["'0'", "must be between 1 and 128"][..]),
        (&["--permits", "129", "a"], &["'129'", "must be between 1 and 128"]),
        (&["--permits", "many", "a"], &["'many'", "must be between 1 and 128"]),
        (&["--permits", "3", "a", "--also", "b"], &["--permits", "--also"]),
        (&["a", "--also", "a"], &["\"a\"", "once"]),
        (&["a", "--also", "b", "--also", "b"], &["\"b\"", "once"]),
        (&["a", "--also", ""], &["between 1 and 255"]),
        (&["--permits", "3", &long], &["256 bytes", "between 1 and 255"]),
    ] {
        for action in ["run", "hold"] {
            let command = if action == "run" { &["--", "echo", "ran"][..] } else { &[] };
            let (code, line) = failure(&store.act(&[&[action], options, command].concat()));
            assert_eq!(code, 64, "{line}");
            for word in words {
                assert!(line.contains(word), "{word} in {line}");
            }
            assert!(store.left().is_empty(), "nothing is written");
        }
    }
}

#[test]
fn one_limit_holds_for_the_wait_for_all() {
    let store = Store::new();
    let mut holder = start(&store, &["run", "b", "--", "sh", "-c", "echo up; read -r _ || :"]);
    assert_eq!(holder.line(), "up");
    let started = std::time::Instant::now();
    let (code, line) =
        failure(&store.act(&["run", "--wait", "3s", "a", "--also", "b", "--", "echo", "ran"]));
    assert_eq!(code, 75);
    assert!(started.elapsed() >= Duration::from_secs(3));
    assert!(line.contains("lock \"b\" not acquired within 3s"), "{line}");
    assert_eq!(holder.code(), 0);
}
