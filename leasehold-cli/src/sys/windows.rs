//! Windows.

use std::fs::{self, File};
use std::io;
use std::os::windows::io::AsHandle as _;
use std::path::Path;

use tokio::sync::mpsc;

use crate::store::Convention;

/// The default stores, for `--help`.
pub(crate) const DEFAULT_STORES: &str = "\
    each user    %LOCALAPPDATA%\\leasehold\\locks.db
";
/// What is weaker here than on Linux, for `--help`.
pub(crate) const WEAKER: &str = "

On this system nothing asks COMMAND to end when the lock is lost: it is ended at once, when
Linux would send SIGKILL, and --loss-grace changes nothing. So are the processes that it
leaves behind when it exits. An exit code of COMMAND above 255 becomes 255. COMMAND gets
Ctrl-C and Ctrl-Break from the console, and leasehold waits for its end. After the machine
has slept, a job whose lock is over ends up to a second late.";
/// Where programs keep their data.
pub(crate) const CONVENTION: Convention = Convention::LocalAppData;

/// Each user has a store, also administrators.
pub(crate) fn is_root() -> bool {
    false
}

/// Makes a folder, if it is missing. In a user's profile only this user and administrators may use
/// it.
pub(crate) fn make_private(folder: &Path) -> io::Result<Option<String>> {
    fs::create_dir_all(folder).map(|()| None)
}

/// Makes a new file. Who may read it, its folder says.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    File::create_new(path)
}

/// What stdin is, if it has already ended. `NUL` looks like a pipe.
pub(crate) fn unfit_stdin() -> io::Result<Option<&'static str>> {
    let stdin = File::from(io::stdin().as_handle().try_clone_to_owned()?);
    // Only a file has metadata.
    Ok(stdin.metadata().is_ok_and(|found| found.is_file()).then_some("a file"))
}

/// Whether a write to stderr would not block now, which is not known here.
pub(crate) fn takes_more() -> bool {
    true
}

/// The keys of a terminal, one by one, are not available here.
pub(crate) struct Keyboard;

impl Keyboard {
    pub(crate) fn open() -> io::Result<(Self, mpsc::UnboundedReceiver<u8>)> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
