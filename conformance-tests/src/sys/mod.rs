//! What the suite asks of the operating system.
//!
//! | | Unix | Windows |
//! |---|---|---|
//! | a child process that is killed | SIGKILL | `TerminateProcess` |
//! | a child process that is paused | SIGSTOP, SIGCONT | none: the cases that need `pauses` do not apply, and an election is tried with kills alone |

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;

pub(crate) use system::signal;
pub use system::{PAUSES, Signal};
