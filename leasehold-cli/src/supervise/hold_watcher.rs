//! The watcher of `hold`: it kills a `leasehold hold` that is stopped or blocked when the validity
//! of its lock ends. Its stdout ends then, so the script can notice.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use super::alarm::Alarm;
use super::deadline::Deadline;
use super::helper::{Helper, Role};
use super::messages::{Order, Report};
use super::sys::Wire;
use super::until;

/// leasehold's handle of the watcher.
pub(crate) struct HoldWatcher(Helper);

impl HoldWatcher {
    /// Starts the watcher of a lock with this lease. It kills this process at `deadline.kill`.
    pub(crate) fn start(deadline: Deadline, lease: Duration) -> io::Result<Self> {
        let (mut command, ours) = Helper::prepare(Role::HoldWatcher)?;
        // The script waits for the end of our stdout.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Helper::start((command, ours), None, deadline, lease).map(Self)
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

/// In the watcher: waits until leasehold must be killed, or, with `false`, until it has ended.
pub(super) async fn until_end(mut wire: Wire, deadline: Deadline) -> bool {
    let mut ends = Alarm::unset();
    ends.set(Some(deadline.kill));
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
                None => return false,
            },
            () = ends.rung() => return true,
        }
    }
}
