//! How a job ended: `supervise` reports it, and `exit` turns it into an exit code.

use std::io;

/// How the job ended.
#[derive(Debug)]
pub enum Ended {
    /// COMMAND exited with this code. As in a shell, 126 and 127 may also mean that it could not be
    /// executed; the line on stderr is then already written.
    Exited(u8),
    /// A signal with this number ended COMMAND.
    Signalled(i32),
    /// The lock was lost, and the job was ended.
    Lost {
        /// Why the lock was lost.
        reason: String,
        /// How many processes survived SIGKILL: those of another user, or stuck in the kernel.
        left: u64,
    },
    /// The lock was not renewed in time, and the job was ended before the validity was over.
    NotRenewed {
        /// How many processes survived, as for a lost lock.
        left: u64,
    },
    /// The job reaper was killed, and the job with it.
    Unwatched {
        /// How many processes survived, as for a lost lock.
        left: u64,
    },
    /// The job reaper did not answer, so leasehold killed it, and the job with it.
    Unanswered {
        /// How many processes survived, as for a lost lock.
        left: u64,
    },
    /// No process could be started; nothing has run.
    NotStarted(io::Error),
}
