//! The lock is lost while COMMAND runs.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::locks::Store;
use crate::support::{Running, example};
use rustix::process::Signal;

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

#[test]
fn a_holder_that_was_paused_past_its_lease_learns_of_the_loss_at_once_and_its_late_write_is_refused()
 {
    let store = Store::new();
    let lease = Duration::from_secs(6);
    let report = Report::of(&store);
    // Writes once for each line of its input, and prints a line on SIGTERM. The background process shows that the whole group is
    // ended.
    let writer = format!(
        "trap 'echo asked; exit 3' TERM; sh -c 'exec sleep 1000' & \
         while :; do read -r text && {}; sleep 0.05; done",
        report.write("$text")
    );
    let mut paused = store.run(&["--lease", "6s"], &writer);
    paused.say("first");
    assert_eq!(paused.line(), "wrote first");
    paused.signal(Signal::STOP);

    // The lease is over when another job gets the lock.
    let mut next = store.run(&["--wait", "60s"], &report.write("second"));
    assert_eq!(next.line(), "wrote second");
    assert_eq!(next.code(), 0);

    // COMMAND of the paused leasehold is still running, and writes late.
    paused.say("late");
    let answer = paused.line();
    assert!(answer.starts_with("refused late: fencing token "), "{answer}");
    assert_eq!(report.lines(), ["first", "second"]);

    let continued = Instant::now();
    paused.signal(Signal::CONT);
    assert_eq!(paused.line(), "asked");
    let learnt = continued.elapsed();
    // It reads the clock. Its next renewal would be due only a third of a lease later.
    assert!(learnt < lease / 3, "{learnt:?}");
    assert!(paused.until_all_gone().is_empty(), "the whole group is gone");
    assert_eq!(paused.code(), 79);
    lost(&paused, "the lease expired before it was renewed");
}

#[test]
fn a_lock_taken_away_by_force_ends_the_command() {
    let store = Store::new();
    let mut holder = store.run(&["--lease", "2s"], "echo up; exec sleep 1000");
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
    let mut holder = store.run(&["--lease", "2s", "--grace", "200ms"], script);
    assert_eq!(holder.line(), "up");
    store.ok(&["release", "--force", "job"]);
    assert!(holder.until_all_gone().is_empty());
    assert_eq!(holder.code(), 79);
}

#[test]
fn a_command_that_ended_after_the_loss_does_not_hide_it() {
    let store = Store::new();
    let mut paused = store.run(&["--lease", "1s"], "echo up; read -r _ || :");
    assert_eq!(paused.line(), "up");
    paused.signal(Signal::STOP);
    assert_eq!(store.ok(&["run", "--wait", "60s", "job", "--", "echo", "mine"]), "mine\n");
    // COMMAND ends before leasehold can notice the loss.
    paused.say("");
    paused.close_stdin();
    assert!(until_childless(&paused));
    paused.signal(Signal::CONT);
    assert_eq!(paused.code(), 79);
}

/// Waits until COMMAND, the only child of the job reaper, has ended.
fn until_childless(running: &Running) -> bool {
    let job_reaper = crate::support::only_child(running.pid());
    let start = Instant::now();
    while !crate::support::children(job_reaper).is_empty() {
        if start.elapsed() > crate::support::LIMIT {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Checks the only line of leasehold on stderr. The shell may have written others.
fn lost(running: &Running, why: &str) {
    let mut lines = running.stderr();
    lines.retain(|line| line.starts_with("leasehold:"));
    assert_eq!(lines, [format!("leasehold: lock lost: {why}; COMMAND was ended")]);
}
