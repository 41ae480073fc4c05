//! How a job ended: what `supervise` reports, and `exit` makes an exit code of.

use std::io;

/// How the job came to its end.
#[derive(Debug)]
pub enum Ended {
    /// COMMAND ended by itself with this exit code. 126 and 127 may also mean that it could not be
    /// executed, as in a shell; the line on stderr has then been written.
    Exited(u8),
    /// A signal with this number ended COMMAND.
    Signalled(i32),
    /// The lock was lost and the job was ended for it.
    Lost {
        /// The output of the future that tells of the loss.
        reason: String,
        /// How many processes outlived SIGKILL: those of another user, or hanging in the kernel.
        left: u64,
    },
    /// The job reaper was killed, and the job with it.
    Unwatched {
        /// How many processes outlived that, as for a lost lock.
        left: u64,
    },
    /// No process could be started at all; nothing has run.
    NotStarted(io::Error),
}
