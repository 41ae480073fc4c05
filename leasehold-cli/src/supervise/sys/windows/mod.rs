//! Windows: the processes talk through a named pipe, and a job object ends them.
//!
//! There are two job objects, one in the other, and the system ends all processes of a job object
//! when its last handle closes. leasehold has the handle of the outer one, which contains the job
//! reaper and so the job. The job reaper has the handle of the inner one, which contains itself and
//! the job. So the end of either process, however it comes, ends the job.

mod hold_watcher;
mod job_reaper;
mod signals;
mod tree;
mod wire;

use std::ffi::OsString;
use std::io;
use std::process::{Child, Command, ExitCode};

pub use signals::Signals;
pub(in crate::supervise) use tree::Tree;
pub(in crate::supervise) use wire::{Endpoint, Wire};

use crate::supervise::deadline::Deadline;
use crate::supervise::helper::Role;
use crate::supervise::messages::{Order, deadline, numbers};

/// The number of the signal that asks to end, as on Unix.
pub(in crate::supervise) const TERM: i32 = 15;

/// The command that starts this executable in a role, and our end of the pipe to it.
pub(in crate::supervise) fn prepare(role: Role) -> io::Result<(Command, Endpoint)> {
    let (name, ours) = wire::make()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(role.arg()).arg(name).arg(std::process::id().to_string());
    Ok((command, ours))
}

/// Starts the helper. The watcher of `hold` has its deadline from the beginning. The job reaper
/// waits for it: by then it is in our job object.
pub(in crate::supervise) fn begin(
    command: &mut Command,
    ours: Endpoint,
    tree: Option<&Tree>,
    deadline: Deadline,
) -> io::Result<(Child, Wire)> {
    let mut wire = Wire::of_leasehold(ours);
    match tree {
        Some(_) => wire.send(Order::Extend(deadline)),
        None => drop(command.args(numbers(deadline).map(|number| number.to_string()))),
    }
    Ok((command.spawn()?, wire))
}

/// Runs what this process was started for; `None` for an ordinary start.
pub(in crate::supervise) fn reentered(
    arg: &str,
    mut args: impl Iterator<Item = OsString>,
) -> Option<ExitCode> {
    let role = Role::of(arg)?;
    let pipe = args.next()?;
    let leasehold = args.next()?.to_str()?.parse().ok()?;
    Some(match role {
        Role::JobReaper => job_reaper::main(&pipe, args),
        Role::HoldWatcher => {
            let mut number = || args.next()?.to_str()?.parse().ok();
            hold_watcher::main(&pipe, leasehold, deadline([number()?, number()?]))
        }
    })
}
