//! The first job's leasehold is stopped, wherever it runs.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::{Pair, STUBBORN, family, quoted, stop};
use crate::support::{Running, children, new_session};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_session_of_its_own_with_hang_ups_ignored_in_a_pipeline_and_without_stdin() {
    for surroundings in ["setsid -w FIRST", "nohup FIRST", "echo word | FIRST | cat", "FIRST <&-"] {
        first_in(surroundings, &family(STUBBORN)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_command_that_forks_twice() {
    // As a daemon starts: its parent and the parent of that have ended.
    first_in("FIRST", &format!("(setsid sh -c '{STUBBORN}' &) & {STUBBORN}")).await;
}

/// As in a container.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_the_first_process_of_a_namespace() {
    let unshare = "unshare --user --map-root-user --pid --fork --mount-proc";
    if !Command::new("sh").args(["-c", &format!("{unshare} true")]).status().unwrap().success() {
        println!("SKIPPED: this machine allows no process namespaces");
        return;
    }
    first_in(&format!("{unshare} FIRST"), &family(STUBBORN)).await;
}

/// Starts the first job by a shell script, in which FIRST stands for its words. Stops its
/// leasehold.
async fn first_in(surroundings: &str, job: &str) {
    let pair = Pair::new().await;
    let script = surroundings.replace("FIRST", &quoted(&pair.first_args(&[], job)));
    let mut first = Running::start(new_session().args(["sh", "-c", &script]));
    pair.until_beating(0);
    let leasehold = leasehold_below(first.pid());
    let mut second = pair.second();
    stop(leasehold);
    pair.first_has_ended_before(&mut second, surroundings);
    kill_process(leasehold, Signal::CONT).unwrap();
    first.ended();
}

/// The only process below another one that is `leasehold run`, and not one of its helpers.
fn leasehold_below(above: Pid) -> Pid {
    let is_leasehold = |pid: &Pid| {
        let cmdline =
            fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        let words: Vec<_> = cmdline.split(|byte| *byte == 0).collect();
        words[0] == crate::support::command().as_bytes() && words.get(1) == Some(&&b"run"[..])
    };
    let mut all = vec![above];
    let mut next = 0;
    while next < all.len() {
        all.extend(children(all[next]));
        next += 1;
    }
    let mut found = all.into_iter().filter(is_leasehold);
    found.next().unwrap()
}
