//! The constants of the command that a developer may want to tune, with their reasons.

use std::time::Duration;

/// How long the command waits for a store's background work before it exits. Nothing depends on
/// that work.
pub(crate) const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// The same after a loss, if the store still answers: other locks of the command may be released.
pub(crate) const CLOSE_LIMIT_AFTER_LOSS: Duration = Duration::from_secs(1);

/// Without `--loss-grace`, SIGTERM is sent this part of the lease before the end of the validity. A
/// renewal is due after a third of the lease at most, so 0.4 leases are left for its repetitions.
pub(crate) const LOSS_GRACE_PART: u32 = 4;
/// The longest `--loss-grace`, as a part of the validity.
pub(crate) const LONGEST_LOSS_GRACE_PART: u32 = 3;

/// After a loss without notice, the time between SIGTERM and SIGKILL. The next holder may already
/// work.
pub(crate) const GRACE_WITHOUT_NOTICE: Duration = Duration::from_secs(1);

/// SIGKILL is sent this part of the lease before the end of the validity: the kernel needs time to
/// end the processes, and a busy machine time to run the job reaper.
pub(crate) const KILL_MARGIN_PART: u32 = 20;
/// The margin of long leases.
pub(crate) const KILL_MARGIN_MOST: Duration = Duration::from_secs(1);

/// A helper process must answer within this part of the lease. leasehold ends the job before the
/// validity ends, in any case: this limit is for a helper that fails while the lock is renewed.
pub(crate) const ANSWER_PART: u32 = 3;
/// But not sooner, because a process may start slowly on a busy machine.
pub(crate) const ANSWER_LEAST: Duration = Duration::from_secs(1);
/// And not later, because a job reaper that is stopped does not report the end of COMMAND.
pub(crate) const ANSWER_MOST: Duration = Duration::from_secs(5);
/// How often the job reaper is asked if no renewal is due for long.
pub(crate) const ASK_EVERY: Duration = Duration::from_secs(5);
/// How long the job reaper may take to carry out an order, besides the time that the order allows.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_millis(250);

/// How long to wait for processes that SIGKILL did not end at once. They belong to another user or
/// hang in the kernel, and may do so for ever.
pub(crate) const KILL_LIMIT: Duration = Duration::from_secs(5);

/// How often to check for processes that have survived SIGKILL. The kernel does not report the end
/// of a process that is not our child.
pub(crate) const KILL_POLL: Duration = Duration::from_millis(5);
/// The number of these checks, which together last about as long as the limit above.
pub(crate) const KILL_LOOKS: u32 = (KILL_LIMIT.as_millis() / KILL_POLL.as_millis()) as u32;

/// The shortest interval of `list --watch`. A shorter one loads the store, and nobody can read so
/// fast.
pub(crate) const SHORTEST_WATCH: Duration = Duration::from_millis(100);
/// The longest one, so that a wrong unit is noticed.
pub(crate) const LONGEST_WATCH: Duration = Duration::from_secs(3_600);
/// The most locks whose waiters are read each time, with a call for each lock, if the list does not
/// contain them.
pub(crate) const MOST_INSPECTED: usize = 50;

/// The number of lines that wait for a reader of stderr. It is enough for the events of several
/// minutes, in less than 1 MB.
pub(crate) const STDERR_LINES: usize = 1024;
/// How long to wait at the exit for a reader of stderr who does not read.
pub(crate) const STDERR_STALL: Duration = Duration::from_millis(100);
/// How many of these times to wait for one who reads, or for a file system that is slow.
pub(crate) const STDERR_STALLS: u32 = 20;

/// How often the line of a wait on a terminal is written again.
pub(crate) const WAITING_LINE_EVERY: Duration = Duration::from_secs(1);
/// How often the store is asked for it who holds the lock.
pub(crate) const INSPECT_EVERY: Duration = Duration::from_secs(5);

/// If only a client that looks for a lease sees that a holder is dead: it looks again after this
/// part of the lease. A live holder renews after a third of it at most, and is seen in between.
pub(crate) const LOOK_PART: u32 = 16;

/// The largest file with the URL of a store. A wrong file may have no end.
pub(crate) const LONGEST_STORE_FILE: u64 = 64 * 1024;

/// The most bytes that are read of a file with a lock, which has less than 1000.
pub(crate) const LONGEST_HANDLE_FILE: u64 = 64 * 1024;
