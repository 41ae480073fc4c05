//! The watcher of `hold`, as a process.

use std::ffi::OsStr;
use std::io;
use std::process::ExitCode;

use winsafe::{HPROCESS, co::PROCESS};

use super::signals::Signals;
use super::wire::Wire;
use crate::exit;
use crate::supervise::deadline::Deadline;
use crate::supervise::hold_watcher::until_end;

/// The exit code of a `hold` that is ended, as on Unix.
const KILLED: u32 = 128 + 9;

pub(super) fn main(pipe: &OsStr, leasehold: u32, deadline: Deadline) -> ExitCode {
    match watch(pipe, leasehold, deadline) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => exit::CANNOT_EXECUTE.into(),
    }
}

fn watch(pipe: &OsStr, leasehold: u32, deadline: Deadline) -> io::Result<()> {
    let leasehold = HPROCESS::OpenProcess(PROCESS::TERMINATE, false, leasehold);
    let leasehold = leasehold.map_err(|error| io::Error::other(error.to_string()))?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        // Ctrl-C is for leasehold.
        let _caught = Signals::catch()?;
        // Only a living leasehold has the pipe, so the handle is of the right process.
        let wire = Wire::of_helper(pipe)?;
        if until_end(wire, deadline).await {
            let ended = leasehold.TerminateProcess(KILLED);
            ended.map_err(|error| io::Error::other(error.to_string()))?;
        }
        Ok(())
    })
}
