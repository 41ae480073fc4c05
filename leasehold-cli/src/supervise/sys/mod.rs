//! The processes of a job, on each system.
//!
//! | | Linux | macOS, other Unix | Windows |
//! |---|---|---|---|
//! | the job | all processes below the job reaper, also those that left its group | the process group of COMMAND | a job object, which no process leaves |
//! | leasehold is killed | the job reaper ends the job | the same | the system ends the job reaper and the job |
//! | the job reaper is killed | the system ends COMMAND, leasehold the rest | leasehold ends the group | the system ends the job |
//! | both are killed at once | the system ends COMMAND; what it started goes on | **COMMAND goes on** | the system ends both |
//! | leasehold is stopped | the job reaper ends the job in time | the same | the same |
//! | before SIGKILL | SIGTERM, and a grace time | the same | nothing: the job is ended at once |
//! | a terminal | COMMAND stays in the group of leasehold | COMMAND has a session of its own, so Ctrl-Z does not return to the shell | COMMAND gets Ctrl-C and Ctrl-Break from the console |
//! | signals that were ignored at the start | stay ignored | are caught | – |
//! | what COMMAND leaves behind when it exits | goes on | goes on | is ended |

#[cfg(unix)]
#[cfg_attr(target_os = "linux", path = "unix/linux/mod.rs")]
#[cfg_attr(not(target_os = "linux"), path = "unix/macos.rs")]
mod kernel;
#[cfg_attr(unix, path = "unix/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
mod system;

pub use system::Signals;
pub(super) use system::{Endpoint, TERM, Tree, Wire, begin, prepare, reentered};
