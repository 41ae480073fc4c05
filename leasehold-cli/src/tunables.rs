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

/// The shortest interval of `list --watch`: more often is a load on the store that nobody can read.
pub(crate) const SHORTEST_WATCH: Duration = Duration::from_millis(100);
/// The longest one, so that a mistaken unit is noticed.
pub(crate) const LONGEST_WATCH: Duration = Duration::from_secs(3_600);
/// Each look asks for the waiters of so many locks, where the list does not tell them: a call each.
pub(crate) const MOST_INSPECTED: usize = 50;

/// The largest file that may hold the URL of a store: one by mistake may have no end.
pub(crate) const LONGEST_STORE_FILE: u64 = 64 * 1024;
