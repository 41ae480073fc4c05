//! The last step before COMMAND: a process that asks for a signal when the job reaper dies, and
//! then becomes COMMAND.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, getppid};

use super::kernel;
use crate::exit::{self, CANNOT_EXECUTE, NOT_FOUND};
use crate::stderr;

/// The hidden first argument; then the job reaper's process id, COMMAND and its arguments.
pub(super) const ARG: &str = "__launch";

/// Becomes COMMAND. Returns only if that fails.
pub(super) fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = args.next().and_then(|id| id.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let (Some(parent), Some(program)) = (parent, args.next()) else {
        exit::complain("this is an internal command");
        return exit::USAGE.into();
    };
    if let Err(error) = kernel::tie_to_parent() {
        exit::complain(format_args!("cannot tie COMMAND to its parent: {}", exit::cause(&error)));
        return CANNOT_EXECUTE.into();
    }
    // The job reaper may have died just before. Nobody then reads our exit code.
    if getppid() != Some(parent) {
        return CANNOT_EXECUTE.into();
    }
    let error = Command::new(&program).args(args).exec();
    let code = code_of(&error, Path::new(&program));
    let why = match code {
        NOT_FOUND => "there is no such program".to_owned(),
        _ => exit::cause(&error),
    };
    // Nobody may read stderr, and leasehold holds the lock until this process ends.
    let _ = stderr::start(exit::lines_are_missing);
    exit::complain(format_args!("cannot run {program:?}: {why}"));
    stderr::finish();
    code.into()
}

/// The code of a shell: 127 if there is no such program, 126 if it cannot be executed (even if only
/// its interpreter is missing).
fn code_of(error: &io::Error, program: &Path) -> u8 {
    let named_by_path = program.components().count() > 1;
    match error.kind() {
        io::ErrorKind::NotFound if named_by_path && program.exists() => CANNOT_EXECUTE,
        io::ErrorKind::NotFound => NOT_FOUND,
        // This is also the error if a directory of PATH may not be searched, so that no program is
        // found there.
        io::ErrorKind::PermissionDenied if !named_by_path && !in_path(program) => NOT_FOUND,
        _ => CANNOT_EXECUTE,
    }
}

/// Whether a directory of PATH that we may search has such a file.
fn in_path(program: &Path) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|directory| directory.join(program).exists())
    })
}
