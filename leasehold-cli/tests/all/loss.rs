//! The lock is lost while COMMAND runs.

use std::path::PathBuf;
use std::process::Command;

use crate::support::locks::Store;
use crate::support::{Running, example, handle, only_child, pid, until_gone, until_stopped};
use rustix::process::{Pid, Signal, kill_process};

/// COMMAND's data, which a program writes with a `SqliteFence` in the same transaction.
struct Report(PathBuf);

impl Report {
    fn of(store: &Store) -> Self {
        Self(store.beside("report.db"))
    }

    /// A shell's words for a write.
    fn write(&self, text: &str) -> String {
        format!("{} {} {text}", example("fenced_write").display(), self.0.display())
    }

    fn lines(&self) -> Vec<String> {
        let output = Command::new(example("fenced_write")).arg(&self.0).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Nobody ends a job whose leasehold and job reaper are both stopped. The fence refuses its writes.
#[test]
fn a_job_whose_leasehold_and_job_reaper_are_stopped_cannot_write_late_and_ends_when_they_continue()
{
    let store = Store::new();
    let report = Report::of(&store);
    // Writes once for each line of its input.
    let writer = format!(
        "sh -c 'exec sleep 1000' & echo $!; while :; do read -r text && {}; sleep 0.05; done",
        report.write("$text")
    );
    let mut paused = store.run(&["--lease", "6s"], &writer);
    let background = handle(pid(&paused.line()));
    paused.say("first");
    assert_eq!(paused.line(), "wrote first");
    let job_reaper = stop_both(&paused);

    // The lease is over when another job gets the lock.
    let mut next = store.run(&["--wait", "60s"], &report.write("second"));
    assert_eq!(next.line(), "wrote second");
    assert_eq!(next.code(), 0);

    paused.say("late");
    let answer = paused.line();
    assert!(answer.starts_with("refused late: fencing token "), "{answer}");
    assert_eq!(report.lines(), ["first", "second"]);

    kill_process(job_reaper, Signal::CONT).unwrap();
    // The job reaper ends the whole job by itself.
    until_gone(&background);
    paused.signal(Signal::CONT);
    assert_eq!(paused.code(), 79);
    // leasehold may see the end of the validity first, or that of the job.
    let reasons =
        ["the lease expired before it was renewed", "the store confirmed no renewal in time"];
    let said = reasons.map(|why| format!("leasehold: lock lost: {why}; COMMAND was ended"));
    let lines = own_lines(&paused);
    assert!(lines.len() == 1 && said.contains(&lines[0]), "{lines:?}");
}

#[test]
fn a_lock_taken_away_by_force_ends_the_command() {
    let store = Store::new();
    let mut holder = store.run(&["--lease", "5s"], "echo up; exec sleep 1000");
    assert_eq!(holder.line(), "up");
    let said = store.ok(&["release", "--force", "job"]);
    let process = format!(":{}\" ", holder.pid().as_raw_nonzero());
    assert!(said.starts_with("job: taken from ") && said.contains(&process), "{said}");
    assert!(holder.until_all_gone().is_empty());
    assert_eq!(holder.code(), 79);
    lost(&holder, "the store no longer has the grant");
}

#[test]
fn what_ignores_sigterm_is_killed_after_the_grace_time() {
    let store = Store::new();
    let script = "trap '' TERM; sh -c 'echo up; while :; do sleep 1000; done' & wait; sleep 1000";
    let mut holder = store.run(&["--lease", "5s", "--loss-grace", "200ms"], script);
    assert_eq!(holder.line(), "up");
    store.ok(&["release", "--force", "job"]);
    assert!(holder.until_all_gone().is_empty());
    assert_eq!(holder.code(), 79);
}

#[test]
fn a_command_that_ended_after_the_loss_does_not_hide_it() {
    let store = Store::new();
    let mut paused = store.run(&["--lease", "3s"], "echo $$; read -r _ || :");
    let command = handle(pid(&paused.line()));
    let job_reaper = stop_both(&paused);
    assert_eq!(store.ok(&["run", "--wait", "60s", "job", "--", "echo", "mine"]), "mine\n");
    // COMMAND ends before leasehold can notice the loss.
    paused.say("");
    until_gone(&command);
    kill_process(job_reaper, Signal::CONT).unwrap();
    paused.signal(Signal::CONT);
    assert_eq!(paused.code(), 79);
}

/// Stops leasehold and its job reaper; returns the job reaper.
fn stop_both(leasehold: &Running) -> Pid {
    let job_reaper = only_child(leasehold.pid());
    for process in [job_reaper, leasehold.pid()] {
        kill_process(process, Signal::STOP).unwrap();
        until_stopped(process);
    }
    job_reaper
}

/// The lines of leasehold on stderr. The shell may have written others.
fn own_lines(running: &Running) -> Vec<String> {
    let mut lines = running.stderr();
    lines.retain(|line| line.starts_with("leasehold:"));
    lines
}

/// Checks the only line of leasehold on stderr.
fn lost(running: &Running, why: &str) {
    assert_eq!(own_lines(running), [format!("leasehold: lock lost: {why}; COMMAND was ended")]);
}
