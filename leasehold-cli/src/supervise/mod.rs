//! Runs the job, and ends all of it when it must end.
//!
//! # Three processes
//!
//! ```text
//! leasehold ── job reaper ── COMMAND ── whatever COMMAND starts
//! ```
//!
//! *leasehold* holds the lock and its lease. The *job reaper* is our own executable, started once
//! more (code between fork and exec would need `unsafe`). It starts COMMAND and stays. Its only duty is
//! to end the job:
//!
//! - It holds one end of a socket whose other end only leasehold holds. If leasehold ends in any way,
//!   also by SIGKILL, the kernel closes that socket, and the job reaper kills the whole job.
//! - It is a *child subreaper*: a process that COMMAND leaves behind becomes its child, not init's. So
//!   the whole job stays one tree below it, also processes that called `setsid` or `daemon`, and the
//!   tree is empty exactly when `wait` reports no children. A parent-death signal alone would end
//!   only COMMAND itself.
//! - It has a process group of its own: neither the terminal nor a signal to a group reaches it, and
//!   signals other than SIGKILL and SIGSTOP do nothing to it.
//!
//! If the job reaper itself is killed, COMMAND gets a parent-death signal. A third start of our
//! executable sets this signal, just before it *becomes* COMMAND (`launch`). The kernel drops it if
//! COMMAND is set-user-id. The other processes of the job become children of leasehold, which is a
//! subreaper too, and kills them before it releases the lock. Only if somebody kills both leasehold and
//! the job reaper at the same moment may grandchildren live on.
//!
//! # Groups and terminals
//!
//! Without a controlling terminal COMMAND leads a process group of its own. With one it stays in
//! the group in which leasehold was started, so that it can read from the terminal and the shell's
//! job control holds for both. That group may have other members (the rest of a pipeline, the
//! calling script), so there "the job" means the tree, and never the group.
//!
//! # What ends when
//!
//! - COMMAND ends: its status is passed on at once. Its background processes continue, as under any
//!   shell; the lock does not cover them.
//! - The lock is lost: the whole job, background processes and all, gets SIGTERM (and SIGCONT, so
//!   that a stopped one can act on it), then SIGKILL after the grace time, in which signals are passed on
//!   as before.
//! - leasehold dies, panics, or drops the future of [`run`]: the whole job gets SIGKILL.

mod job;
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

use job::Job;
use wire::Report;

/// The command to run, its arguments and its environment.
///
/// Standard input, output and error are those of this process, untouched; so is the working
/// directory.
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
/// `lost` completes, with the reason, when the lock is no longer held; the job is then ended and
/// given `grace` between SIGTERM and SIGKILL. Where COMMAND's end and the loss are both there to be
/// seen, the loss counts: that the job was covered to its end cannot be claimed.
///
/// Signals caught by `signals` are passed on to the job meanwhile, except those that the terminal
/// has given to the job already.
///
/// Dropping the future kills the job at once, without grace. The caller's runtime must have its IO
/// driver enabled.
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

/// Does the job reaper's part, if this process was started for it.
///
/// Must be the first thing in `main`, before any thread is started: [`run`] starts the running
/// executable again and relies on this call. `None` means that this is an ordinary start.
#[must_use]
pub fn reentered() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    match args.next()?.to_str()? {
        job_reaper::ARG => Some(job_reaper::main(args)),
        launch::ARG => Some(launch::main(args)),
        _ => None,
    }
}

/// Our own executable, for starting it again.
///
/// The link and not the path it shows: the path may meanwhile hold a newer version of us, or none.
const OURSELVES: &str = "/proc/self/exe";

/// `number` as a signal that has a name, which all that we forward have.
fn named(number: i32) -> Option<Signal> {
    Signal::from_named_raw(number)
}
