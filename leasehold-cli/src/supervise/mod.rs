//! Runs the job, and ends all of it when it must end.
//!
//! ```text
//! leasehold ── job reaper ── COMMAND ── other processes of the job
//! ```
//!
//! docs/design/jobs.md explains the three processes, and what ends the job in which case. In short:
//!
//! - `job` is leasehold's side, `job_reaper` the job reaper's side, and `wire` the socket between them. Both are this executable,
//!   started again, because code between fork and exec would need `unsafe`.
//! - `launch` is a third start of this executable. It sets the parent-death signal, and then becomes COMMAND.
//! - `signals` decides which signals are passed on; `shell` replaces a rule of the kernel for terminals; `tree` finds the processes
//!   of the job.
//!
//! The job reaper is a *child subreaper*: a process that COMMAND leaves behind becomes its child, not init's. So the job stays one
//! tree, even with processes that called `setsid` or `daemon`, and the tree is empty exactly when `wait` reports no children.
//!
//! Without a controlling terminal COMMAND leads a process group of its own. With one it stays in the group in which leasehold was
//! started. That group may have other members (the rest of a pipeline, the calling script), so there "the job" means the tree,
//! never the group.

mod job_handle;
mod job_reaper;
mod launch;
mod shell;
mod signals;
mod tree;
mod wire;

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::Signal;

pub use crate::ended::Ended;
pub use signals::Signals;

use job_handle::Job;
use wire::Report;

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

/// Runs the job to its end.
///
/// `lost` ends, with the reason, when the lock is lost. The job then gets SIGTERM, and SIGKILL after `grace`. If COMMAND has
/// ended and the lock is lost, the loss counts, because it is unknown whether the job held the lock to its end.
///
/// Signals that `signals` catches are passed on to the job, except those that the terminal has already sent to the job.
///
/// Dropping the future kills the job at once, without the grace time. The caller's runtime must have its I/O driver enabled.
pub async fn run(
    spec: ChildSpec,
    signals: &mut Signals,
    lost: impl Future<Output = String>,
    grace: Duration,
) -> Ended {
    let mut lost = pin!(lost);
    let mut job = match Job::start(&spec, signals.shared_group()) {
        Ok(job) => job,
        Err(error) => return Ended::NotStarted(error),
    };
    let ended = loop {
        tokio::select! {
            biased;
            reason = &mut lost => {
                let left = job.end(grace, signals).await;
                break Ended::Lost { reason, left };
            }
            report = job.report() => match report {
                Some(Report::Started(_)) => {}
                Some(Report::Failed(errno)) => {
                    break Ended::NotStarted(io::Error::from_raw_os_error(errno));
                }
                Some(Report::Exited(code)) => break Ended::Exited(code),
                Some(Report::Signalled(number)) => break Ended::Signalled(number),
                Some(Report::Gone(_)) | None => {
                    let left = job.kill().await;
                    break Ended::Unwatched { left };
                }
            },
            signal = signals.next_for_job() => job.forward(signal).await,
        }
    };
    job.finish().await;
    ended
}

/// Runs the job reaper or the launcher, if this process was started for that; `None` for an ordinary start.
///
/// Call this first in `main`, before any thread is started: [`run`] starts this executable again and relies on it.
#[must_use]
pub fn reentered() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    match args.next()?.to_str()? {
        job_reaper::ARG => Some(job_reaper::main(args)),
        launch::ARG => Some(launch::main(args)),
        _ => None,
    }
}

/// This executable, to start it again. Not its path, which may meanwhile have a newer version, or none.
const OURSELVES: &str = "/proc/self/exe";

/// The signal with this number. All forwarded signals have a name.
fn named(number: i32) -> Option<Signal> {
    Signal::from_named_raw(number)
}
