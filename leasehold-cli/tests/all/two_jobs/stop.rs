//! Somebody stops leasehold or the job reaper, and does not continue it.

use std::ffi::OsStr;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::{Pair, STUBBORN, family, job_reaper, quoted, stop};
use crate::support::locks::Store;
use crate::support::terminal::Session;
use crate::support::{Running, handle, new_session, pid, stat, until_gone};

/// The job reaper needs no leasehold to know when the validity ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leasehold_is_stopped() {
    let pair = Pair::new().await;
    let mut first = pair.first(&[], &family(STUBBORN));
    let mut second = pair.second();
    stop(first.pid());
    pair.first_has_ended_before(&mut second, "SIGSTOP");
    first.signal(Signal::CONT);
    assert_eq!(first.code(), 79);
}

/// In a terminal, Ctrl-Z stops leasehold together with the job, except what ignores it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_types_ctrl_z() {
    in_a_shell("Ctrl-Z", |session, _| session.type_in("\u{1a}")).await;
}

/// A process that uses the terminal in the background gets these signals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leasehold_uses_the_terminal_in_the_background() {
    for (signal, name) in [(Signal::TTIN, "SIGTTIN"), (Signal::TTOU, "SIGTTOU")] {
        in_a_shell(name, |_, leasehold| kill_process(leasehold, signal).unwrap()).await;
    }
}

/// Stops the first job's leasehold, which runs in the foreground of a shell with job control.
async fn in_a_shell(what: &str, stops: impl FnOnce(&mut Session, Pid)) {
    let pair = Pair::new().await;
    let shell = ["env", "PS1=prompt> ", "bash", "--norc", "--noediting", "-i"].map(OsStr::new);
    let mut session = Session::start(&shell);
    session.until("prompt> ");
    let script = pair.folder.path().join("first");
    let job = format!("echo reaper: $PPID.; {}", family(STUBBORN));
    fs::write(&script, quoted(&pair.first_args(&[], &job))).unwrap();
    session.type_in(&format!(". {}; echo code=$?.\n", script.display()));
    session.until("reaper: ");
    let job_reaper = pid(session.until(".").trim_end_matches('.'));
    let leasehold = pid(&stat(job_reaper).unwrap()[1]);
    pair.until_beating(0);
    let mut second = pair.second();
    stops(&mut session, leasehold);
    session.until("Stopped");
    pair.first_has_ended_before(&mut second, what);
    session.type_in("fg; echo now=$?.\n");
    session.until("now=79.");
}

/// leasehold kills a job reaper that does not answer, and the job with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_job_reaper_is_stopped() {
    let pair = Pair::new().await;
    let mut first = pair.first(&[], &family(STUBBORN));
    let mut second = pair.second();
    stop(job_reaper(&first));
    pair.first_has_ended_before(&mut second, "job reaper stopped");
    first.until_all_gone();
    assert_eq!(first.code(), 137);
    let said = "leasehold: the job reaper did not answer and was killed; COMMAND was ended";
    assert_eq!(first.stderr(), [said]);
}

/// leasehold has the timer, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_job_reaper_is_stopped_and_the_store_is_cut_off() {
    let pair = Pair::new().await;
    let mut first = pair.first(&[], &family(STUBBORN));
    let mut second = pair.second();
    stop(job_reaper(&first));
    pair.cut_off().await;
    pair.first_has_ended_before(&mut second, "job reaper stopped, store cut off");
    first.until_all_gone();
    // Which of the two it notices first is open.
    assert!([79, 137].contains(&first.code()));
}

/// The next holder may begin at once, so this is about the end of the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_job_reaper_is_stopped_and_the_lock_is_taken_by_force() {
    let pair = Pair::new().await;
    let mut first = pair.first(&[], &family(STUBBORN));
    stop(job_reaper(&first));
    pair.ok(&["release", "--force", "job"]);
    first.until_all_gone();
    assert_eq!(first.code(), 79);
    assert_eq!(pair.second().code(), 0);
}

/// Nobody reports the end of COMMAND then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_job_reaper_is_stopped_when_command_ends() {
    let pair = Pair::new().await;
    let words = pair.first_args(&[], "echo $$; read -r _; exit 3");
    let mut first = Running::start(new_session().args(words));
    let command = handle(pid(&first.line()));
    stop(job_reaper(&first));
    first.say("");
    until_gone(&command);
    // Without a time-out of its own: the first job's leasehold has to notice.
    let mut second = pair.second();
    second.line();
    assert_eq!((first.code(), second.code()), (137, 0));
}

/// leasehold does not wait for the next renewal to notice it.
#[test]
fn the_job_reaper_is_stopped_under_a_long_lease() {
    let store = Store::new();
    store.ok(&["init", "--longest-lease", "1h"]);
    let mut first = store.run(&["--lease", "1h"], "echo up; exec sleep 1000");
    assert_eq!(first.line(), "up");
    stop(job_reaper(&first));
    assert_eq!(first.code(), 137);
}
