//! The job reaper: a process between leasehold and COMMAND. It starts COMMAND. When the validity of
//! the lock comes to its end, when leasehold asks for it, or when leasehold is gone, it ends
//! itself, and with that the whole job. So a leasehold that is stopped or blocked does no harm.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use leasehold::backend::{Env as _, SystemEnv};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::signals::Signals;
use super::tree::{cause, ends_with_us};
use super::wire::Wire;
use crate::exit::{self, CANNOT_EXECUTE, NOT_FOUND};
use crate::supervise::alarm::Alarm;
use crate::supervise::deadline::Deadline;
use crate::supervise::messages::{Order, Report};
use crate::tunables::ANSWER_LIMIT;

/// The exit code of a process that Ctrl-C has ended.
const ENDED_BY_CTRL_C: u32 = 0xC000_013A;
/// The number of the signal that means the same as the end of the job.
const KILL: i32 = 9;

pub(super) fn main(pipe: &OsStr, command: impl Iterator<Item = OsString>) -> ExitCode {
    match start(pipe, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            exit::complain(format_args!("job reaper: {}", exit::cause(&error)));
            CANNOT_EXECUTE.into()
        }
    }
}

fn start(pipe: &OsStr, command: impl Iterator<Item = OsString>) -> io::Result<()> {
    // Closed by the system when this process ends, and not before: that would end it, too.
    let job = ManuallyDrop::new(ends_with_us()?);
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        // Ctrl-C is for COMMAND.
        let _caught = Signals::catch()?;
        let mut wire = Wire::of_helper(pipe)?;
        let Some(Order::Extend(deadline)) = wire.receive().await else { return Ok(()) };
        let Some(deadline) = until_in_time(&mut wire, deadline).await else { return Ok(()) };
        // leasehold has put this process into its own job object before it sent the deadline.
        job.assign_current_process().map_err(cause)?;
        match launch(command) {
            Ok(child) => {
                wire.send(Report::Started(child.id().unwrap_or(0)));
                watch(&mut wire, deadline, child).await;
            }
            Err(code) => {
                wire.send(Report::Exited(code));
                while !matches!(wire.receive().await, Some(Order::Done) | None) {}
            }
        }
        // Whoever does not read loses the report.
        let _ = timeout(ANSWER_LIMIT, wire.flushed()).await;
        Ok(())
    })
}

/// Waits until the deadline is to come, so that COMMAND does not start after it: this process may
/// have begun slowly, or have been stopped. Later deadlines may already be there. `None` if COMMAND
/// must not start any more.
async fn until_in_time(wire: &mut Wire, first: Deadline) -> Option<Deadline> {
    let mut deadline = first;
    wire.send(Report::Noted);
    while SystemEnv.now() >= deadline.kill {
        match wire.receive().await? {
            Order::Extend(later) => {
                deadline = later;
                wire.send(Report::Noted);
            }
            Order::Forward(_) => {}
            Order::End(_) | Order::Kill | Order::Done => return None,
        }
    }
    Some(deadline)
}

/// Starts COMMAND, or says why not and returns the code of a shell.
fn launch(mut command: impl Iterator<Item = OsString>) -> Result<Child, u8> {
    let program = command.next().unwrap_or_default();
    Command::new(&program).args(command).spawn().map_err(|error| {
        let (code, why) = match error.kind() {
            io::ErrorKind::NotFound if Path::new(&program).is_file() => {
                (CANNOT_EXECUTE, exit::cause(&error))
            }
            io::ErrorKind::NotFound => (NOT_FOUND, "there is no such program".to_owned()),
            _ => (CANNOT_EXECUTE, exit::cause(&error)),
        };
        exit::complain(format_args!("cannot run {program:?}: {why}"));
        code
    })
}

/// Returns when the job must end, or when leasehold knows that COMMAND has ended.
async fn watch(wire: &mut Wire, mut deadline: Deadline, mut command: Child) {
    let mut validity_ends = Alarm::unset();
    let mut has_ended = false;
    loop {
        validity_ends.set(Some(deadline.kill));
        tokio::select! {
            // After a pause of the machine, a renewal may be confirmed already.
            biased;
            order = wire.receive() => match order {
                Some(Order::Extend(later)) => {
                    deadline = later;
                    wire.send(Report::Noted);
                }
                // COMMAND has it from the console.
                Some(Order::Forward(_)) => {}
                Some(Order::Kill) => return wire.send(Report::Signalled(KILL)),
                // Nothing asks a process to end, so there is nothing to wait for.
                Some(Order::End(_)) | Some(Order::Done) | None => return,
            },
            () = validity_ends.rung() => return wire.send(Report::Ending),
            ended = command.wait(), if !has_ended => {
                has_ended = true;
                wire.send(Report::Exited(ended.map_or(u8::MAX, code_of)));
            }
        }
    }
}

/// The exit code of COMMAND. Other programs see 255 for one that does not fit into a byte.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or(-1).cast_unsigned();
    if code == ENDED_BY_CTRL_C { exit::of_signal(2) } else { u8::try_from(code).unwrap_or(u8::MAX) }
}
