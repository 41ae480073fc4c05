//! Replaces a rule of the kernel that does not apply because of the job reaper.
//!
//! When a shell dies, the kernel sends SIGHUP to its stopped jobs and continues them, because they
//! would otherwise stay stopped for ever. It does this for a process group in which no member has a
//! parent in another group of the session. The job reaper is such a parent for the group that
//! COMMAND shares with leasehold. So the job reaper watches the shell itself.

use std::os::fd::OwnedFd;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getppid, kill_process_group, pidfd_open};
use tokio::sync::oneshot;

use super::tree;

/// The process that does job control for a group: the first above it that is not in it.
pub(in crate::supervise::sys) struct Shell {
    group: Pid,
    gone: oneshot::Receiver<()>,
}

impl Shell {
    /// The shell of our parent's group; `None` if leasehold leads its session, or if the kernel or
    /// `/proc` do not let us watch.
    pub(in crate::supervise::sys) fn of(group: Pid) -> Option<Self> {
        let mut above = getppid()?;
        let mut shell = tree::read(above)?;
        while shell.group == Some(group) {
            above = shell.parent?;
            shell = tree::read(above)?;
        }
        // It does job control only for its own session.
        if shell.session? != tree::own()?.session? {
            return None;
        }
        let handle = pidfd_open(above, PidfdFlags::empty()).ok()?;
        let (tell, gone) = oneshot::channel();
        // A thread, because adding a foreign descriptor to the runtime's poller needs `unsafe`. It
        // ends with the process.
        let wait = move || {
            // If `tell` is dropped unsent, watching has failed.
            if until_gone(&handle).is_ok() {
                let _ = tell.send(());
            }
        };
        thread::Builder::new().spawn(wait).ok()?;
        Some(Self { group, gone })
    }

    /// Waits for the shell to die, and then acts like the kernel: it sends SIGHUP and SIGCONT to
    /// the group, if a member is stopped. Never ends if there is no shell. Cancel safe.
    pub(in crate::supervise::sys) async fn watch(shell: &mut Option<Self>) {
        let Some(Self { group, gone }) = shell else { return std::future::pending().await };
        if gone.await.is_ok() && tree::any_stopped(*group) {
            let _ = kill_process_group(*group, Signal::HUP);
            let _ = kill_process_group(*group, Signal::CONT);
        }
        *shell = None;
    }
}

fn until_gone(process: &OwnedFd) -> rustix::io::Result<()> {
    rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(process, PollFlags::IN)], None)).map(drop)
}
