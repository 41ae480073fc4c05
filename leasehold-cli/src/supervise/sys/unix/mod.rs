//! Unix: the processes talk through a socket, and end each other by signals.

mod hold_watcher;
mod job_reaper;
mod launch;
mod signal_forwarding;
mod tree;
mod wire;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::process::Pid;

pub use signal_forwarding::Signals;
pub(in crate::supervise) use tree::Tree;
pub(in crate::supervise) use wire::Wire;

use super::kernel;
use crate::supervise::deadline::Deadline;
use crate::supervise::helper::Role;
use wire::{Greeting, greet};

/// The number of the signal that asks to end.
pub(in crate::supervise) const TERM: i32 = signal_hook::consts::SIGTERM;

/// leasehold's end of the socket.
pub(in crate::supervise) type Endpoint = UnixStream;

/// The command that starts this executable in a role, and our end of the socket to it.
pub(in crate::supervise) fn prepare(role: Role) -> io::Result<(Command, Endpoint)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(kernel::ourselves()?);
    command.arg0("leasehold").arg(role.arg()).stdin(OwnedFd::from(theirs));
    // Out of reach of the terminal and of signals to our group.
    command.process_group(0);
    Ok((command, ours))
}

/// Starts the helper, and greets it.
pub(in crate::supervise) fn begin(
    command: &mut Command,
    ours: Endpoint,
    tree: Option<&Tree>,
    deadline: Deadline,
) -> io::Result<(Child, Wire)> {
    let process = command.spawn()?;
    // The command keeps its streams, and so the other end of the socket.
    command.stdin(Stdio::null());
    let group = tree.and_then(Tree::shared).map(number);
    greet(&ours, &Greeting { group, deadline, stdin: io::stdin() })?;
    Ok((process, Wire::new(ours)?))
}

/// Runs what this process was started for; `None` for an ordinary start.
pub(in crate::supervise) fn reentered(
    arg: &str,
    args: impl Iterator<Item = OsString>,
) -> Option<ExitCode> {
    if arg == launch::ARG {
        return Some(launch::main(args));
    }
    Some(match Role::of(arg)? {
        Role::JobReaper => job_reaper::main(args),
        Role::HoldWatcher => hold_watcher::main(),
    })
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

fn pid_of(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}
