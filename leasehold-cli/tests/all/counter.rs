//! Many processes on one store: no update is lost, and tokens are in the order of the grants.

use std::fs;
use std::process::Stdio;
use std::thread;

use rustix::process::{Signal, kill_process};

use crate::support::locks::Store;
use crate::support::{example, only_child, until_stopped};

const PROCESSES: usize = 8;
const EACH: usize = 200;

/// Without a lock most increments would be lost. It uses only builtins of the shell, so it starts
/// no process.
const INCREMENT: &str =
    "read -r n < counter; echo $((n + 1)) > counter; echo $LEASEHOLD_TOKEN >> tokens";

#[test]
fn eight_processes_count_to_1600_with_rising_tokens() {
    let store = Store::new();
    fs::write(store.beside("counter"), "0\n").unwrap();
    let program = env!("CARGO_BIN_EXE_leasehold");
    // A shell that runs leasehold so many times, one after the other, until one fails.
    let script = format!(
        "i=0; while [ $i -lt {EACH} ]; do i=$((i + 1)); \
         {program} run --wait forever counter -- sh -c '{INCREMENT}' || exit; done"
    );
    let workers: Vec<_> = (0..PROCESSES)
        .map(|_| {
            std::process::Command::new("sh")
                .args(["-c", &script])
                .current_dir(store.directory())
                .env("LEASEHOLD_STORE", store.url())
                .stdin(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .map(|child| thread::spawn(move || child.wait_with_output().unwrap()))
        .collect();
    for worker in workers {
        let output = worker.join().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""));
    }
    let count: usize = fs::read_to_string(store.beside("counter")).unwrap().trim().parse().unwrap();
    assert_eq!(count, PROCESSES * EACH);
    let tokens: Vec<u64> = fs::read_to_string(store.beside("tokens"))
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert_eq!(tokens.len(), PROCESSES * EACH);
    assert!(tokens.is_sorted_by(|a, b| a < b), "tokens in the order of the increments");
}

/// The example of docs/patterns.md.
#[test]
fn a_durable_count_outlives_its_workers_and_a_late_one_counts_nothing() {
    let store = Store::new();
    let latch =
        format!("{} {}", example("durable_count").display(), store.beside("latch.db").display());
    let mut make = std::process::Command::new("sh");
    let made = make.args(["-c", &format!("{latch} 3")]).output().unwrap();
    assert_eq!(String::from_utf8(made.stdout).unwrap(), "3 are open\n");
    let count = || store.ok(&["run", "--wait", "60s", "job", "--", "sh", "-c", &latch]);
    assert_eq!(count(), "2 are open\n");

    // A worker and its job reaper are paused, and its lock is taken away; its COMMAND counts when
    // another has counted.
    let mut paused = store.run(&[], &format!("echo up; read -r _; {latch}"));
    assert_eq!(paused.line(), "up");
    let job_reaper = only_child(paused.pid());
    for process in [job_reaper, paused.pid()] {
        kill_process(process, Signal::STOP).unwrap();
        until_stopped(process);
    }
    store.ok(&["release", "--force", "job"]);
    assert_eq!(count(), "1 are open\n");
    paused.say("");
    let late = paused.line();
    assert!(late.starts_with("not counted: fencing token "), "{late}");
    for process in [job_reaper, paused.pid()] {
        kill_process(process, Signal::CONT).unwrap();
    }
    assert_eq!(paused.code(), 79);

    assert_eq!(count(), "the last one is done\n");
    assert_eq!(count(), "all were done before\n");
}
