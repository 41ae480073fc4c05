//! The watcher of `hold`, as a process.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use super::kernel::{self, Parent};
use super::wire::{Wire, greeted};
use crate::exit;
use crate::supervise::hold_watcher::until_end;

pub(super) fn main() -> ExitCode {
    kernel::set_name(c"hold-watcher");
    match watch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => exit::CANNOT_EXECUTE.into(),
    }
}

fn watch() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // leasehold has ended.
    let Ok(greeting) = greeted(&socket) else { return Ok(()) };
    // It is the script's, and ends with leasehold.
    drop(greeting.stdin);
    let Some(leasehold) = Parent::of_this_process()? else { return Ok(()) };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let wire = Wire::new(socket)?;
        if until_end(wire, greeting.deadline).await { leasehold.kill() } else { Ok(()) }
    })
}
