//! The job's end when the lock is lost, and when leasehold or the job reaper is killed.
//!
//! All processes of the scripts have stdout open, so the end of stdout means that none is left.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use crate::support::{
    Fifo, Running, handle, new_session, only_child, pid, stat, supervise, until_gone, until_stopped,
};
use rustix::process::{Signal, kill_process};

/// Processes that would survive a naive supervisor: one that ignores all signals but SIGKILL, one
/// in a session of its own, and two whose parents have gone.
const FAMILY: &str = "
    sh -c 'trap \"\" TERM HUP INT QUIT; echo up; while :; do sleep 1000; done' &
    setsid sh -c 'trap \"\" TERM HUP INT QUIT; echo up; while :; do sleep 1000; done' &
    sh -c 'setsid sh -c \"echo up; sleep 1000\" & sh -c \"echo up; sleep 1000\" &'
";

fn await_family(running: &Running) {
    for _ in 0..4 {
        assert_eq!(running.line(), "up");
    }
}

fn lose(fifo: &Fifo, grace: &'static str, script: &str) -> Running {
    let options = [OsStr::new("--lost"), fifo.arg(), OsStr::new("--grace"), OsStr::new(grace)];
    Running::script(&options, script)
}

#[test]
fn a_lost_lock_ends_the_command_with_sigterm() {
    let fifo = Fifo::new();
    let mut running =
        lose(&fifo, "1h", "trap 'echo asked; exit 3' TERM; echo ready; while :; do read _; done");
    assert_eq!(running.line(), "ready");
    fifo.poke();
    assert_eq!(running.until_all_gone(), ["asked"]);
    assert_eq!(running.code(), 79);
    assert_eq!(running.stderr(), ["leasehold: lock lost: told so; COMMAND was ended"]);
}

#[test]
fn processes_that_ignore_sigterm_are_killed_after_the_grace_time() {
    let fifo = Fifo::new();
    // COMMAND itself ends at once, its family does not.
    let mut running = lose(&fifo, "300ms", &format!("{FAMILY} echo $$; sleep 1000"));
    let mut first = Vec::new();
    for _ in 0..5 {
        first.push(running.line());
    }
    assert_eq!(first.iter().filter(|line| *line == "up").count(), 4);
    let lost_at = Instant::now();
    fifo.poke();
    running.until_all_gone();
    assert!(lost_at.elapsed() >= Duration::from_millis(300), "{:?}", lost_at.elapsed());
    assert_eq!(running.code(), 79);
}

#[test]
fn the_grace_time_ends_with_the_last_process() {
    let fifo = Fifo::new();
    let mut running = lose(&fifo, "1h", "sh -c 'echo up; sleep 1000' & wait");
    assert_eq!(running.line(), "up");
    fifo.poke();
    running.until_all_gone();
    assert_eq!(running.code(), 79);
}

#[test]
fn a_stopped_job_is_ended_too() {
    let fifo = Fifo::new();
    let mut running =
        lose(&fifo, "1h", "trap 'echo asked; exit 3' TERM; echo $$; kill -STOP $$; read _");
    until_stopped(pid(&running.line()));
    fifo.poke();
    let (lines, errors) = (running.until_all_gone(), running.stderr());
    assert_eq!((running.code(), lines), (79, vec!["asked".to_owned()]), "{errors:?}");
}

#[test]
fn killing_leasehold_kills_everything() {
    let mut running = Running::script(&[], &format!("{FAMILY} wait; sleep 1000"));
    await_family(&running);
    running.signal(Signal::KILL);
    running.until_all_gone();
    assert!(!running.ended().success());
}

#[test]
fn killing_leasehold_during_the_grace_time_cuts_it_short() {
    let fifo = Fifo::new();
    let running = lose(&fifo, "1h", "trap 'echo asked' TERM; echo ready; while :; do read _; done");
    assert_eq!(running.line(), "ready");
    fifo.poke();
    assert_eq!(running.line(), "asked");
    running.signal(Signal::KILL);
    running.until_all_gone();
}

/// Even processes that have left the group or have lost their parent. They would continue while the
/// lock is free.
#[test]
fn killing_the_job_reaper_kills_all_processes_of_the_command() {
    let mut running = Running::script(&[], &format!("{FAMILY} wait; sleep 1000"));
    await_family(&running);
    kill_process(only_child(running.pid()), Signal::KILL).unwrap();
    running.until_all_gone();
    assert_eq!(running.code(), 137);
    assert_eq!(running.stderr(), ["leasehold: the job reaper was killed; COMMAND was ended"]);
}

/// A shell that has started a process becomes leasehold: that process is not part of the job.
#[test]
fn killing_the_job_reaper_spares_what_leasehold_had_before_the_job() {
    // They are distinguished by their start time, in hundredths of a second.
    let script = "sleep 1000 >/dev/null 2>&1 & echo $!; sleep 0.1; exec \"$0\" \"$@\"";
    let mut command = new_session();
    command.args(["sh", "-c", script]).arg(supervise());
    let mut running = Running::start(command.args(["sh", "-c", "echo $PPID; sleep 1000"]));
    let (other, job_reaper) = (pid(&running.line()), pid(&running.line()));
    kill_process(job_reaper, Signal::KILL).unwrap();
    running.until_all_gone();
    assert_eq!(running.code(), 137);
    assert!(stat(other).is_some_and(|stat| stat[0] != "Z"), "it was killed, too");
    kill_process(other, Signal::KILL).unwrap();
}

#[test]
fn killing_the_job_reaper_during_the_grace_time_cuts_it_short() {
    let fifo = Fifo::new();
    let mut running = lose(&fifo, "1h", &format!("trap 'echo asked' TERM; {FAMILY} wait; wait"));
    await_family(&running);
    let job_reaper = only_child(running.pid());
    fifo.poke();
    assert_eq!(running.line(), "asked");
    kill_process(job_reaper, Signal::KILL).unwrap();
    running.until_all_gone();
    assert_eq!(running.code(), 79);
}

#[test]
fn signals_are_passed_on_during_the_grace_time() {
    let fifo = Fifo::new();
    let traps = "trap 'echo asked' TERM; trap 'echo hurried; exit 3' INT";
    let mut running = lose(&fifo, "1h", &format!("{traps}; echo up; while :; do read _; done"));
    assert_eq!(running.line(), "up");
    fifo.poke();
    assert_eq!(running.line(), "asked");
    running.signal(Signal::INT);
    assert_eq!(running.until_all_gone(), ["hurried"]);
    assert_eq!(running.code(), 79);
}

#[test]
fn killing_both_still_kills_the_command() {
    let running = Running::script(&[], "echo $$; exec sleep 1000");
    let command = handle(pid(&running.line()));
    // Stopped, leasehold cannot do the job reaper's work: the kernel alone must end COMMAND.
    running.signal(Signal::STOP);
    until_stopped(running.pid());
    kill_process(only_child(running.pid()), Signal::KILL).unwrap();
    until_gone(&command);
    running.signal(Signal::KILL);
    running.until_all_gone();
}

#[test]
fn other_signals_do_nothing_to_the_job_reaper() {
    let mut running = Running::script(&[], "echo up; read _; exit 5");
    assert_eq!(running.line(), "up");
    let job_reaper = only_child(running.pid());
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1] {
        kill_process(job_reaper, signal).unwrap();
    }
    running.say("");
    assert_eq!(running.code(), 5);
}
