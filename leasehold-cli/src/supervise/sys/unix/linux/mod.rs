//! What Linux has, and other Unix systems have not.

mod shell;
mod tree;

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, pidfd_send_signal, set_child_subreaper,
    set_parent_process_death_signal,
};

pub(super) use shell::Shell;
pub(super) use tree::{Process, below, below_since, own, read};

/// Does not wait, and does not end this process if nobody reads.
pub(super) const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
/// Waits for the whole message. No child inherits what comes with it.
pub(super) const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC.union(RecvFlags::WAITALL);

/// This executable, to start it again. Not its path, which may meanwhile have a newer version, or
/// none.
pub(super) fn ourselves() -> io::Result<PathBuf> {
    Ok("/proc/self/exe".into())
}

/// The name in `ps`. Without it `ps` would show "exe".
pub(super) fn set_name(name: &CStr) {
    let _ = rustix::thread::set_name(name);
}

/// A process that a child of ours leaves behind becomes our child.
pub(super) fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Puts the process that becomes COMMAND in this group; `None`: it leads one.
pub(super) fn set_group(command: &mut Command, group: Option<u32>) {
    command.process_group(group.map_or(0, |group| group as i32));
}

/// The kernel kills this process when its parent ends. This stays so after an exec, unless the
/// program is set-user-id.
pub(super) fn tie_to_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Whether no process is left in COMMAND's group. The tree tells.
pub(super) fn is_gone(_: Option<Pid>) -> bool {
    true
}

/// How many processes of the job are left.
pub(super) fn left(_: Pid) -> u64 {
    below(getpid()).len() as u64
}

/// Never ends: the death of each process of the job wakes the job reaper.
pub(super) async fn next_look() {
    std::future::pending().await
}

/// A handle of the parent, whatever process has its id later.
pub(super) struct Parent {
    pid: Pid,
    handle: OwnedFd,
}

impl Parent {
    pub(super) fn of_this_process() -> io::Result<Option<Self>> {
        let Some(pid) = getppid() else { return Ok(None) };
        Ok(Some(Self { pid, handle: pidfd_open(pid, PidfdFlags::empty())? }))
    }

    /// Kills it, unless it has ended.
    pub(super) fn kill(&self) -> io::Result<()> {
        if getppid() == Some(self.pid) {
            pidfd_send_signal(&self.handle, Signal::KILL)?;
        }
        Ok(())
    }
}
