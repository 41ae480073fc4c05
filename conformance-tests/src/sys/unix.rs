//! Unix.

use std::io;

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

/// Whether processes can be paused here.
pub const PAUSES: bool = true;

/// Sends a signal to the process with this id.
pub(crate) fn signal(id: u32, signal: Signal) -> io::Result<()> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    Ok(kill_process(id.ok_or(io::ErrorKind::NotFound)?, signal)?)
}
