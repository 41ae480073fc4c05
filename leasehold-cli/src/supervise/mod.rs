//! Runs the job, and ends all of it when it must end.
//!
//! ```text
//! leasehold ── job reaper ── COMMAND ── other processes of the job
//! ```
//!
//! docs/design/jobs.md explains the three processes, and what ends the job in which case. In short:
//!
//! - `job_handle` is leasehold's side, `helper` what it has in common for both kinds of helper
//!   process, and `messages` what they say. A helper is this executable, started again, because
//!   code between fork and exec would need `unsafe`.
//! - `sys` has the rest for each system, with a table of what differs. There `job_reaper` is the
//!   job reaper's side, and `wire` the connection. `launch` is a third start of this executable: it
//!   sets the parent-death signal, and then becomes COMMAND.
//! - `deadline` is the rule that ends a job before the validity of its lock, and `alarm` the timer
//!   for it.
//! - `hold_watcher` is the helper of `hold`, which has no job.
//! - In `sys/unix`, `signal_forwarding` decides which signals are passed on; in `sys/unix/linux`,
//!   `shell` replaces a rule of the kernel for terminals, and `tree` finds the processes of the
//!   job.
//!
//! On Linux the job reaper is a *child subreaper*: a process that COMMAND leaves behind becomes its
//! child, not init's. So the job stays one tree, even with processes that called `setsid` or
//! `daemon`, and the tree is empty exactly when `wait` reports no children.
//!
//! Without a controlling terminal COMMAND leads a process group of its own. With one it stays in
//! the group in which leasehold was started. That group may have other members (the rest of a
//! pipeline, the calling script), so there "the job" means the tree, never the group.

mod alarm;
mod deadline;
mod helper;
mod hold_watcher;
mod job_handle;
mod messages;
mod sys;

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use leasehold::backend::{Env as _, SystemEnv};
use tokio::sync::watch;
use tokio::time::interval_at;

pub use crate::ended::Ended;
pub use sys::Signals;

pub use deadline::Validity;
pub(crate) use deadline::{Deadline, longest_grace};
pub(crate) use hold_watcher::HoldWatcher;

use crate::tunables::ASK_EVERY;
use alarm::Alarm;
use job_handle::Job;
use messages::Report;
use sys::TERM;

/// The command to run, its arguments and its environment.
///
/// It has the standard streams and the working directory of this process.
#[derive(Debug, Clone)]
pub struct ChildSpec {
    /// The program, looked up in `PATH` if it contains no slash.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables that are not inherited.
    pub env_remove: Vec<OsString>,
    /// Environment variables set besides the inherited ones.
    pub env: Vec<(OsString, OsString)>,
}

/// The lock under which a job runs, as far as its supervision is concerned. Of several locks, the
/// one that ends first counts.
pub struct Tenure<'a, L, V, R> {
    /// The validity, as far as it is known when this is called.
    pub validity: V,
    /// Changes with each confirmed renewal.
    pub renewed: &'a mut watch::Receiver<R>,
    /// Ends, with the reason, when the lock is lost.
    pub lost: L,
}

/// How long the job may wind down after SIGTERM, before SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Graces {
    /// If no renewal is confirmed. This time lies before the end of the validity.
    pub not_renewed: Duration,
    /// If the lock was taken away without notice. The next holder may already work.
    pub lost: Duration,
    /// If leasehold gets SIGTERM, which it passes on. The lock is held until the job has ended.
    /// `None`: without limit.
    pub shutdown: Option<Duration>,
}

/// Runs the job to its end.
///
/// The job ends before the validity of its lock does. [`Graces::not_renewed`] before that, the job
/// gets SIGTERM, and a renewal that is confirmed later does not call it back. If COMMAND has ended
/// and the lock is lost, the loss counts, because it is unknown whether the job held the lock to
/// its end.
///
/// Signals that [`Signals`] catches are passed on to the job, except those that the terminal has
/// already sent to the job.
///
/// Dropping the future kills the job at once, without a grace time. The caller's runtime must have
/// its I/O and time drivers enabled.
pub async fn run<L, V, R>(
    spec: ChildSpec,
    signals: &mut Signals,
    tenure: Tenure<'_, L, V, R>,
    graces: Graces,
) -> Ended
where
    L: Future<Output = String>,
    V: Fn() -> Validity,
{
    let Tenure { validity, renewed, lost } = tenure;
    let mut lost = pin!(lost);
    let mut job = match Job::start(&spec, signals, validity(), graces.not_renewed) {
        Ok(job) => job,
        Err(error) => return Ended::NotStarted(error),
    };
    let (mut overdue, mut shutdown_ends) = (Alarm::unset(), Alarm::unset());
    let mut ask = interval_at(tokio::time::Instant::now() + ASK_EVERY, ASK_EVERY);
    let ended = loop {
        overdue.set(Some(job.overdue()));
        let answer_due = job.answer_due();
        tokio::select! {
            // After a pause of this process everything is ready: a loss counts most, and an answer
            // that has come is not overdue.
            biased;
            reason = &mut lost => {
                let left = job.end(graces.lost, signals).await;
                break Ended::Lost { reason, left };
            }
            report = job.report() => match report {
                Some(Report::Started(_) | Report::Noted) => {}
                Some(Report::Failed(errno)) => {
                    break Ended::NotStarted(io::Error::from_raw_os_error(errno));
                }
                Some(Report::Exited(code)) => break Ended::Exited(code),
                Some(Report::Signalled(number)) => break Ended::Signalled(number),
                Some(Report::Ending) => {
                    let left = job.until_gone(job.overdue(), signals).await;
                    break Ended::NotRenewed { left };
                }
                Some(Report::Gone(left)) => break Ended::NotRenewed { left },
                None => break Ended::Unwatched { left: job.kill().await },
            },
            () = overdue.rung() => break Ended::NotRenewed { left: job.kill_all().await },
            () = until(answer_due) => break Ended::Unanswered { left: job.kill_all().await },
            () = shutdown_ends.rung() => job.order_kill(),
            Ok(()) = renewed.changed() => job.extend(validity(), graces.not_renewed),
            // The same deadline once more, to see whether the job reaper still answers.
            _ = ask.tick() => job.extend(validity(), graces.not_renewed),
            signal = signals.next_for_job() => {
                job.forward(signal);
                if let (TERM, Some(grace)) = (signal, graces.shutdown) {
                    // A second SIGTERM does not lengthen the time.
                    shutdown_ends.set_first(SystemEnv.now() + grace);
                }
            }
        }
    };
    job.finish().await;
    ended
}

/// Waits until an instant, not counting suspend; without one, for ever.
async fn until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Runs the job reaper, the launcher or the watcher of `hold`, if this process was started for
/// that; `None` for an ordinary start.
///
/// Call this first in `main`, before any thread is started: [`run`] starts this executable again
/// and relies on it.
#[must_use]
pub fn reentered() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    sys::reentered(args.next()?.to_str()?, args)
}
