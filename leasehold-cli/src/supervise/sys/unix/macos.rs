//! macOS, and other Unix systems that nobody has tried: the job is the process group of COMMAND.

use std::ffi::CStr;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, Signal, getppid, kill_process, setsid, test_kill_process_group};

/// The runtime library ignores the signal of a write that nobody reads.
pub(super) const SEND: SendFlags = SendFlags::DONTWAIT;
/// Waits for the whole message.
pub(super) const RECEIVE: RecvFlags = RecvFlags::WAITALL;

/// How often to look for processes of the group: their deaths do not wake the job reaper.
const LOOK: Duration = Duration::from_millis(5);

pub(super) fn ourselves() -> io::Result<PathBuf> {
    std::env::current_exe()
}

pub(super) fn set_name(_: &CStr) {}

/// There is no such thing here.
pub(super) fn adopt() -> io::Result<()> {
    Ok(())
}

/// The process that becomes COMMAND leaves the group by itself: see [`tie_to_parent`].
pub(super) fn set_group(_: &mut Command, _: Option<u32>) {}

/// Begins a session, and so a group. A process of another session may read from the terminal, also
/// if its group is not in the foreground. Nothing ties the process to its parent.
pub(super) fn tie_to_parent() -> io::Result<()> {
    setsid()?;
    Ok(())
}

/// Whether no process is left in COMMAND's group.
pub(super) fn is_gone(group: Option<Pid>) -> bool {
    group.is_none_or(|group| test_kill_process_group(group) == Err(Errno::SRCH))
}

/// How many processes of the job are left, as far as it can be known.
pub(super) fn left(group: Pid) -> u64 {
    u64::from(!is_gone(Some(group)))
}

/// Ends when it is time to look again.
pub(super) async fn next_look() {
    tokio::time::sleep(LOOK).await;
}

/// A process below this one. Here none is found.
pub(super) struct Process {
    pub(super) group: Option<Pid>,
    pub(super) session: Option<Pid>,
}

impl Process {
    pub(super) fn signal(&self, _: Signal) {}
}

pub(super) fn below(_: Pid) -> Vec<Process> {
    Vec::new()
}

pub(super) fn below_since(_: Pid, _: &Process) -> Vec<Process> {
    Vec::new()
}

pub(super) fn own() -> Option<Process> {
    None
}

pub(super) fn read(_: Pid) -> Option<Process> {
    None
}

/// COMMAND never shares a group, so no shell continues it.
pub(super) struct Shell;

impl Shell {
    pub(super) fn of(_: Pid) -> Option<Self> {
        None
    }

    pub(super) async fn watch(_: &mut Option<Self>) {
        std::future::pending().await
    }
}

/// The parent, as long as it is the parent.
pub(super) struct Parent(Pid);

impl Parent {
    pub(super) fn of_this_process() -> io::Result<Option<Self>> {
        Ok(getppid().map(Self))
    }

    /// Kills it, unless it has ended: then another process is our parent.
    pub(super) fn kill(&self) -> io::Result<()> {
        if getppid() == Some(self.0) {
            kill_process(self.0, Signal::KILL)?;
        }
        Ok(())
    }
}
