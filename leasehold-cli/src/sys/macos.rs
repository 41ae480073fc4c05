//! macOS, and other Unix systems that nobody has tried.

pub(crate) use super::unix::*;
use crate::store::Convention;

/// The default stores, for `--help`.
pub(crate) const DEFAULT_STORES: &str = "\
    root         /Library/Application Support/leasehold/locks.db
    other users  ~/Library/Application Support/leasehold/locks.db
";
/// What is weaker here than on Linux, for `--help`.
pub(crate) const WEAKER: &str = "

On this system the job is the process group of COMMAND, which has a session of its own. A
process that leaves that group is not ended with the job. If leasehold and its job reaper
are killed at the same time, COMMAND goes on without the lock. Ctrl-Z suspends COMMAND, but
does not return to the shell. After the machine has slept, a job whose lock is over ends up
to a second late.";
/// Where programs keep their data.
pub(crate) const CONVENTION: Convention = Convention::Library;
/// The device numbers of `/dev/null`.
pub(super) const NULL: (u32, u32) = (3, 2);
