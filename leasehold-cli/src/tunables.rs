//! The constants of the command that a developer may want to tune, with their reasons.

use std::time::Duration;

/// How long the command waits for the end of a store's background work before it exits: nothing depends on that work.
pub(crate) const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// How long to wait for processes that SIGKILL did not end at once. They belong to another user or hang in the kernel,
/// and may do so for ever.
pub(crate) const KILL_LIMIT: Duration = Duration::from_secs(5);

/// How often to look for processes that have outlived SIGKILL: the kernel does not report the end of a process that is
/// not our child.
pub(crate) const KILL_POLL: Duration = Duration::from_millis(5);
/// How often in all: about as long as the limit above.
pub(crate) const KILL_LOOKS: u32 = 1000;

/// The largest file that may hold the URL of a store: one by mistake may have no end.
pub(crate) const LONGEST_STORE_FILE: u64 = 64 * 1024;
