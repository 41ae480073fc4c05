//! The watcher of `hold`: it kills a `leasehold hold` that is stopped or blocked when the validity
//! of its lock ends. Its stdout ends then, so the script can notice.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};

use super::alarm::Alarm;
use super::deadline::Deadline;
use super::helper::Helper;
use super::until;
use super::wire::{Order, Report, Wire, greeted};
use crate::exit;

/// The hidden first argument.
pub(super) const ARG: &str = "__hold-watcher";

/// leasehold's handle of the watcher.
pub(crate) struct HoldWatcher(Helper);

impl HoldWatcher {
    /// Starts the watcher of a lock with this lease. It kills this process at `deadline.kill`.
    pub(crate) fn start(deadline: Deadline, lease: Duration) -> io::Result<Self> {
        let mut command = Helper::command(ARG);
        // The script waits for the end of our stdout.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Helper::start(&mut command, None, deadline, lease).map(Self)
    }

    /// Sets a later deadline, after a renewal.
    pub(crate) fn extend(&mut self, deadline: Deadline) {
        self.0.extend(deadline);
    }

    /// Waits until the watcher has ended, or was killed because it did not answer. Cancel safe.
    pub(crate) async fn failed(&mut self) {
        loop {
            let answer_due = self.0.answer_due();
            tokio::select! {
                biased;
                report = self.0.report() => if report.is_none() { return },
                () = until(answer_due) => return self.0.kill(),
            }
        }
    }
}

pub(super) fn main() -> ExitCode {
    let _ = rustix::thread::set_name(c"hold-watcher");
    match watch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => exit::CANNOT_EXECUTE.into(),
    }
}

fn watch() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // leasehold has ended.
    let Ok(greeting) = greeted(&socket) else { return Ok(()) };
    // It is the script's, and ends with leasehold.
    drop(greeting.stdin);
    let Some(parent) = getppid() else { return Ok(()) };
    let leasehold = pidfd_open(parent, PidfdFlags::empty())?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut wire = Wire::new(socket)?;
        let mut ends = Alarm::unset();
        ends.set(Some(greeting.deadline.kill));
        wire.send(Report::Noted);
        loop {
            tokio::select! {
                biased;
                order = wire.receive() => match order {
                    Some(Order::Extend(deadline)) => {
                        ends.set(Some(deadline.kill));
                        wire.send(Report::Noted);
                    }
                    Some(_) => {}
                    None => return Ok(()),
                },
                () = ends.rung() => return kill(parent, &leasehold),
            }
        }
    })
}

/// Kills leasehold, unless it has ended: another process may have its id.
fn kill(parent: Pid, leasehold: &OwnedFd) -> io::Result<()> {
    if getppid() == Some(parent) {
        pidfd_send_signal(leasehold, Signal::KILL)?;
    }
    Ok(())
}
